// Stands in for the image contour-authserver, whose Go module cannot be downloaded.
//
// It allows requests with "allow" in their path, and answers 401 to all others. The backend receives the context of the
// request as headers `Auth-Context-KEY`.
//
// usage: contour-authserver testserver --address=ADDRESS [--tls-cert-path=FILE --tls-key-path=FILE --tls-ca-path=FILE]
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	envoy_type "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
)

type server struct {
	auth.UnimplementedAuthorizationServer
}

func (server) Check(_ context.Context, request *auth.CheckRequest) (*auth.CheckResponse, error) {
	attributes := request.GetAttributes()
	headers := []*core.HeaderValueOption{header("Auth-Handler", "testserver")}
	for key, value := range attributes.GetContextExtensions() {
		headers = append(headers, header("Auth-Context-"+key, value))
	}
	if strings.Contains(attributes.GetRequest().GetHttp().GetPath(), "allow") {
		return &auth.CheckResponse{
			Status:       &rpc.Status{Code: int32(codes.OK)},
			HttpResponse: &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{Headers: headers}},
		}, nil
	}
	denied := &auth.DeniedHttpResponse{Status: &envoy_type.HttpStatus{Code: envoy_type.StatusCode_Unauthorized}, Headers: headers}
	return &auth.CheckResponse{
		Status:       &rpc.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &auth.CheckResponse_DeniedResponse{DeniedResponse: denied},
	}, nil
}

func header(key, value string) *core.HeaderValueOption {
	return &core.HeaderValueOption{Header: &core.HeaderValue{Key: key, Value: value}}
}

func main() {
	flags := flag.NewFlagSet(os.Args[0], flag.ExitOnError)
	address := flags.String("address", ":9090", "")
	certificate := flags.String("tls-cert-path", "", "")
	key := flags.String("tls-key-path", "", "")
	// The tests use no client certificates.
	flags.String("tls-ca-path", "", "")
	if len(os.Args) < 2 || os.Args[1] != "testserver" {
		log.Fatal("usage: contour-authserver testserver --address=ADDRESS")
	}
	if err := flags.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	var options []grpc.ServerOption
	if *certificate != "" {
		pair, err := credentials.NewServerTLSFromFile(*certificate, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(pair))
	}
	listener, err := net.Listen("tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer(options...)
	auth.RegisterAuthorizationServer(grpcServer, server{})
	log.Fatal(grpcServer.Serve(listener))
}
