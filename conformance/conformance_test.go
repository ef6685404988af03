// The official Gateway API conformance suite, unmodified, as a test program. `make conformance` runs it in a lab.
package conformance_test

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) { conformance.RunConformance(t) }
