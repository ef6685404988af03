// Stands in for grpc-health-probe, which is part of the image yages.
//
// usage: grpc-health-probe -addr=HOST:PORT
package main

import (
	"context"
	"flag"
	"log"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	address := flag.String("addr", "", "")
	flag.Parse()
	connection, err := grpc.NewClient(*address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	limited, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	response, err := grpc_health_v1.NewHealthClient(connection).Check(limited, &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		log.Fatal(err)
	}
	if response.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		log.Fatal(response.GetStatus())
	}
}
