package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The same resources as in bench/src/resources.rs.
const (
	endpoints    = 10
	markerPrefix = "marker-"
)

func name(index int) string { return fmt.Sprintf("cluster-%06d", index) }

func marked(marker uint64) string { return fmt.Sprintf("%s%016x", markerPrefix, marker) }

// markerOf reads the marker of a resource that newResource made.
func markerOf(resource types.Resource) uint64 {
	text := ""
	switch resource := resource.(type) {
	case *endpoint.ClusterLoadAssignment:
		text = resource.GetEndpoints()[0].GetLocality().GetZone()
	case *cluster.Cluster:
		text = resource.GetAltStatName()
	}
	marker, _ := strconv.ParseUint(strings.TrimPrefix(text, markerPrefix), 16, 64)
	return marker
}

func newResource(kind string, index int, marker uint64) types.Resource {
	if kind == "cds" {
		return newCluster(index, marker)
	}
	return newLoadAssignment(index, marker)
}

func newLoadAssignment(index int, marker uint64) *endpoint.ClusterLoadAssignment {
	all := make([]*endpoint.LbEndpoint, endpoints)
	for number := range all {
		address := &core.SocketAddress{
			Address:       fmt.Sprintf("10.%d.%d.%d", 100+(index>>16), 100+(index>>8&127), 100+number),
			PortSpecifier: &core.SocketAddress_PortValue{PortValue: 8080},
		}
		all[number] = &endpoint.LbEndpoint{
			HealthStatus:        core.HealthStatus_HEALTHY,
			LoadBalancingWeight: wrapperspb.UInt32(1),
			HostIdentifier: &endpoint.LbEndpoint_Endpoint{Endpoint: &endpoint.Endpoint{
				Address: &core.Address{Address: &core.Address_SocketAddress{SocketAddress: address}},
			}},
		}
	}
	return &endpoint.ClusterLoadAssignment{
		ClusterName: name(index),
		Endpoints: []*endpoint.LocalityLbEndpoints{{
			Locality: &core.Locality{
				Region:  "region-of-the-benchmark",
				Zone:    marked(marker),
				SubZone: "sub-zone-of-the-benchmark",
			},
			LbEndpoints:         all,
			LoadBalancingWeight: wrapperspb.UInt32(endpoints),
		}},
	}
}

func newCluster(index int, marker uint64) *cluster.Cluster {
	ads := &core.ConfigSource{
		ResourceApiVersion:    core.ApiVersion_V3,
		ConfigSourceSpecifier: &core.ConfigSource_Ads{Ads: &core.AggregatedConfigSource{}},
	}
	return &cluster.Cluster{
		Name:                 name(index),
		AltStatName:          marked(marker),
		ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_EDS},
		EdsClusterConfig:     &cluster.Cluster_EdsClusterConfig{EdsConfig: ads},
		ConnectTimeout:       durationpb.New(5 * time.Second),
		CircuitBreakers: &cluster.CircuitBreakers{Thresholds: []*cluster.CircuitBreakers_Thresholds{{
			MaxConnections:     wrapperspb.UInt32(10_000),
			MaxPendingRequests: wrapperspb.UInt32(10_000),
			MaxRequests:        wrapperspb.UInt32(10_000),
		}}},
	}
}
