// A traffic router plugin of Argo Rollouts that sets weights of HTTPRoutes, for the lab. It takes the place of
// argoproj-labs/rollouts-plugin-trafficrouter-gatewayapi, which the Go module proxy does not serve, and reads the same configuration. Header
// routes, mirrors, and experiments are missing.
//
// Argo Rollouts starts the plugin. build.sh compiles it by the go.mod of Argo Rollouts.
package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/go-plugin"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	"github.com/argoproj/argo-rollouts/rollout/trafficrouting/plugin/rpc"
	"github.com/argoproj/argo-rollouts/utils/plugin/types"
)

const name = "argoproj-labs/gatewayAPI"

var routes = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: plugin.HandshakeConfig{
			ProtocolVersion: 1, MagicCookieKey: "ARGO_ROLLOUTS_RPC_PLUGIN", MagicCookieValue: "trafficrouter",
		},
		Plugins: plugin.PluginSet{"RpcTrafficRouterPlugin": &rpc.RpcTrafficRouterPlugin{Impl: &router{}}},
	})
}

// router implements rpc.TrafficRouterPlugin.
type router struct {
	client dynamic.Interface
}

func failure(err error) types.RpcError {
	if err == nil {
		return types.RpcError{}
	}
	return types.RpcError{ErrorString: err.Error()}
}

func (r *router) InitPlugin() types.RpcError {
	config, err := rest.InClusterConfig()
	if err == nil {
		r.client, err = dynamic.NewForConfig(config)
	}
	return failure(err)
}

// SetWeight writes the weights of both Services into all rules of the HTTPRoute that have them.
func (r *router) SetWeight(rollout *v1alpha1.Rollout, weight int32, others []v1alpha1.WeightDestination) types.RpcError {
	if len(others) > 0 {
		return failure(fmt.Errorf("experiments are not supported"))
	}
	canary := rollout.Spec.Strategy.Canary
	config := struct{ HTTPRoute, Namespace string }{Namespace: rollout.Namespace}
	if err := json.Unmarshal(canary.TrafficRouting.Plugins[name], &config); err != nil {
		return failure(err)
	}
	weights := map[string]int64{canary.CanaryService: int64(weight), canary.StableService: 100 - int64(weight)}
	client := r.client.Resource(routes).Namespace(config.Namespace)
	return failure(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		route, err := client.Get(context.Background(), config.HTTPRoute, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := setWeights(route, weights); err != nil {
			return err
		}
		_, err = client.Update(context.Background(), route, metav1.UpdateOptions{})
		return err
	}))
}

// setWeights fails if a Service is not a backend of the route.
func setWeights(route *unstructured.Unstructured, weights map[string]int64) error {
	rules, _, err := unstructured.NestedSlice(route.Object, "spec", "rules")
	if err != nil {
		return err
	}
	found := map[string]bool{}
	for _, rule := range rules {
		backends, _ := rule.(map[string]any)["backendRefs"].([]any)
		for _, backend := range backends {
			backend := backend.(map[string]any)
			service := backend["name"].(string)
			if weight, ok := weights[service]; ok {
				backend["weight"] = weight
				found[service] = true
			}
		}
	}
	if len(found) < len(weights) {
		return fmt.Errorf("the HTTPRoute %s lacks a backend of %v", route.GetName(), weights)
	}
	return unstructured.SetNestedSlice(route.Object, rules, "spec", "rules")
}

func (r *router) UpdateHash(*v1alpha1.Rollout, string, string, []v1alpha1.WeightDestination) types.RpcError {
	return types.RpcError{}
}

func (r *router) SetHeaderRoute(*v1alpha1.Rollout, *v1alpha1.SetHeaderRoute) types.RpcError {
	return failure(fmt.Errorf("header routes are not supported"))
}

func (r *router) SetMirrorRoute(*v1alpha1.Rollout, *v1alpha1.SetMirrorRoute) types.RpcError {
	return failure(fmt.Errorf("mirrors are not supported"))
}

func (r *router) VerifyWeight(*v1alpha1.Rollout, int32, []v1alpha1.WeightDestination) (types.RpcVerified, types.RpcError) {
	return types.NotImplemented, types.RpcError{}
}

func (r *router) RemoveManagedRoutes(*v1alpha1.Rollout) types.RpcError {
	return types.RpcError{}
}

func (r *router) Type() string {
	return "GatewayAPI"
}
