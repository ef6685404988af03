package main

import (
	"context"
	"fmt"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

var typeURLs = map[string]resource.Type{"eds": resource.EndpointType, "cds": resource.ClusterType}

// changes is what one publication changes, by type ("eds", "cds") and name.
type changes struct {
	sets     map[string]map[string]types.Resource
	removals map[string][]string
}

func newChanges() changes {
	return changes{sets: map[string]map[string]types.Resource{}, removals: map[string][]string{}}
}

func (c changes) set(kind string, first, count int, marker uint64) {
	if c.sets[kind] == nil {
		c.sets[kind] = map[string]types.Resource{}
	}
	for index := first; index < first+count; index++ {
		c.sets[kind][name(index)] = newResource(kind, index, marker)
	}
}

func (c changes) remove(kind string, first, count int) {
	for index := first; index < first+count; index++ {
		c.removals[kind] = append(c.removals[kind], name(index))
	}
}

// store is one of the two caches.
type store interface {
	cache() cache.Cache
	publish(changes) error
	// republish publishes resource 0 anew, unchanged.
	republish(kind string) error
}

func newStore(kind string) (store, error) {
	switch kind {
	case "linear":
		return newLinear(), nil
	case "snapshot":
		return newSnapshot(), nil
	default:
		return nil, fmt.Errorf("--cache: linear or snapshot, not %q", kind)
	}
}

// linear has a linear cache for each type, as its documentation shows.
type linear struct {
	caches map[string]*cache.LinearCache
	mux    *cache.MuxCache
	// first is resource 0 of each type, for republish: the cache gives only copies of everything.
	first map[string]types.Resource
}

func newLinear() *linear {
	l := &linear{caches: map[string]*cache.LinearCache{}, first: map[string]types.Resource{}}
	byURL := map[string]cache.Cache{}
	for kind, url := range typeURLs {
		l.caches[kind] = cache.NewLinearCache(url)
		byURL[url] = l.caches[kind]
	}
	l.mux = &cache.MuxCache{
		Classify:      func(request *cache.Request) string { return request.GetTypeUrl() },
		ClassifyDelta: func(request *discovery.DeltaDiscoveryRequest) string { return request.GetTypeUrl() },
		Caches:        byURL,
	}
	return l
}

func (l *linear) cache() cache.Cache { return l.mux }

func (l *linear) publish(c changes) error {
	for kind, cache := range l.caches {
		if len(c.sets[kind])+len(c.removals[kind]) == 0 {
			continue
		}
		if first, ok := c.sets[kind][name(0)]; ok {
			l.first[kind] = first
		}
		if err := cache.UpdateResources(c.sets[kind], c.removals[kind]); err != nil {
			return err
		}
	}
	return nil
}

func (l *linear) republish(kind string) error {
	return l.caches[kind].UpdateResource(name(0), newResource(kind, 0, markerOf(l.first[kind])))
}

// snapshot has one snapshot for all nodes: each publication makes a new one with a new version, as its users do.
type snapshot struct {
	snapshots cache.SnapshotCache
	resources map[string]map[string]types.Resource
	version   int
}

const everyNode = "every node"

type oneGroup struct{}

func (oneGroup) ID(*core.Node) string { return everyNode }

func newSnapshot() *snapshot {
	s := &snapshot{snapshots: cache.NewSnapshotCache(true, oneGroup{}, nil), resources: map[string]map[string]types.Resource{}}
	for kind := range typeURLs {
		s.resources[kind] = map[string]types.Resource{}
	}
	return s
}

func (s *snapshot) cache() cache.Cache { return s.snapshots }

func (s *snapshot) publish(c changes) error {
	s.version++
	all := map[resource.Type][]types.Resource{}
	for kind, url := range typeURLs {
		for name, resource := range c.sets[kind] {
			s.resources[kind][name] = resource
		}
		for _, name := range c.removals[kind] {
			delete(s.resources[kind], name)
		}
		list := make([]types.Resource, 0, len(s.resources[kind]))
		for _, resource := range s.resources[kind] {
			list = append(list, resource)
		}
		all[url] = list
	}
	next, err := cache.NewSnapshot(strconv.Itoa(s.version), all)
	if err != nil {
		return err
	}
	return s.snapshots.SetSnapshot(context.Background(), everyNode, next)
}

func (s *snapshot) republish(kind string) error {
	marker := markerOf(s.resources[kind][name(0)])
	c := newChanges()
	c.set(kind, 0, 1, marker)
	return s.publish(c)
}
