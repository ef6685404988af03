// Stands in for the image envoyproxy/ratelimit, whose Go module cannot be downloaded.
//
// It counts in memory, in fixed windows, by the configuration in $RUNTIME_ROOT/$RUNTIME_SUBDIRECTORY/config/*.yaml: a
// domain, and nested descriptors with an optional limit.
package main

import (
	"context"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"gopkg.in/yaml.v3"
)

type descriptor struct {
	Key   string
	Value string
	Limit *struct {
		Unit            string
		RequestsPerUnit uint32 `yaml:"requests_per_unit"`
	} `yaml:"rate_limit"`
	Descriptors []descriptor
}

type server struct {
	ratelimit.UnimplementedRateLimitServiceServer
	domains map[string][]descriptor
	mutex   sync.Mutex
	counts  map[string]uint32
}

var units = map[string]int64{"second": 1, "minute": 60, "hour": 3600, "day": 86400}

var responseUnits = map[string]ratelimit.RateLimitResponse_RateLimit_Unit{
	"second": ratelimit.RateLimitResponse_RateLimit_SECOND,
	"minute": ratelimit.RateLimitResponse_RateLimit_MINUTE,
	"hour":   ratelimit.RateLimitResponse_RateLimit_HOUR,
	"day":    ratelimit.RateLimitResponse_RateLimit_DAY,
}

// find returns the configuration of the descriptor with these entries. One with a value takes precedence over one without.
func find(level []descriptor, entries []string) *descriptor {
	for _, exact := range []bool{true, false} {
		for i := range level {
			one := &level[i]
			if one.Key != entries[0] || exact != (one.Value != "") || exact && one.Value != entries[1] {
				continue
			}
			if len(entries) == 2 {
				return one
			}
			return find(one.Descriptors, entries[2:])
		}
	}
	return nil
}

func (s *server) ShouldRateLimit(_ context.Context, request *ratelimit.RateLimitRequest) (*ratelimit.RateLimitResponse, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	response := &ratelimit.RateLimitResponse{OverallCode: ratelimit.RateLimitResponse_OK}
	for _, one := range request.GetDescriptors() {
		status := &ratelimit.RateLimitResponse_DescriptorStatus{Code: ratelimit.RateLimitResponse_OK}
		response.Statuses = append(response.Statuses, status)
		var entries []string
		name := request.GetDomain()
		for _, entry := range one.GetEntries() {
			entries = append(entries, entry.GetKey(), entry.GetValue())
			name += "\x00" + entry.GetKey() + "\x00" + entry.GetValue()
		}
		if len(entries) == 0 {
			continue
		}
		found := find(s.domains[request.GetDomain()], entries)
		if found == nil || found.Limit == nil {
			continue
		}
		seconds := units[found.Limit.Unit]
		now := time.Now().Unix()
		name += "\x00" + strconv.FormatInt(now/seconds, 10)
		s.counts[name] += max(request.GetHitsAddend(), 1)
		limit := found.Limit.RequestsPerUnit
		status.CurrentLimit = &ratelimit.RateLimitResponse_RateLimit{RequestsPerUnit: limit, Unit: responseUnits[found.Limit.Unit]}
		status.DurationUntilReset = &durationpb.Duration{Seconds: seconds - now%seconds}
		if s.counts[name] > limit {
			status.Code, response.OverallCode = ratelimit.RateLimitResponse_OVER_LIMIT, ratelimit.RateLimitResponse_OVER_LIMIT
		} else {
			status.LimitRemaining = limit - s.counts[name]
		}
	}
	return response, nil
}

func main() {
	files, err := filepath.Glob(filepath.Join(os.Getenv("RUNTIME_ROOT"), os.Getenv("RUNTIME_SUBDIRECTORY"), "config", "*.yaml"))
	if err != nil {
		log.Fatal(err)
	}
	limits := &server{domains: map[string][]descriptor{}, counts: map[string]uint32{}}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		var domain struct {
			Domain      string
			Descriptors []descriptor
		}
		if err := yaml.Unmarshal(text, &domain); err != nil {
			log.Fatal(err)
		}
		limits.domains[domain.Domain] = domain.Descriptors
	}
	http.HandleFunc("/healthcheck", func(http.ResponseWriter, *http.Request) {})
	go func() { log.Fatal(http.ListenAndServe(":8080", nil)) }()
	listener, err := net.Listen("tcp", ":8081")
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	ratelimit.RegisterRateLimitServiceServer(grpcServer, limits)
	log.Fatal(grpcServer.Serve(listener))
}
