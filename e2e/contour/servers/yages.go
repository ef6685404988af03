// Stands in for the image yages, whose own program does not compile with a current version of grpc.
package main

import (
	"context"
	"log"
	"net"

	"github.com/projectcontour/yages/yages"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

type server struct {
	yages.UnimplementedEchoServer
}

func (server) Ping(context.Context, *yages.Empty) (*yages.Content, error) {
	return &yages.Content{Text: "pong"}, nil
}

func main() {
	listener, err := net.Listen("tcp", ":9000")
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	yages.RegisterEchoServer(grpcServer, server{})
	grpc_health_v1.RegisterHealthServer(grpcServer, health.NewServer())
	log.Fatal(grpcServer.Serve(listener))
}
