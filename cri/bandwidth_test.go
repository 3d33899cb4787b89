package cri_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// A pod whose bandwidth no plugin limits runs, and an event reports it. A runtime that does not
// report its network may have the plugin.
func TestBandwidthWithoutPlugin(t *testing.T) {
	const portmap = `{"Networks": [{"Config": {"Plugins": [{"Network": {"type": "portmap", "capabilities": {"portMappings": true}}}]}}]}`
	for network, want := range map[string]bool{"": false, portmap: true,
		strings.Replace(portmap, "portMappings", "bandwidth", 1): false} {
		p := pod(v1.RestartPolicyAlways, []string{"a"})
		p.Annotations = map[string]string{podinfo.AnnotationEgressBandwidth: "1M"}
		withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
			b.fake.SetNetwork(network)
			for range 3 {
				status, err := b.client.PodStatus(t.Context(), p.UID)
				if err != nil {
					t.Fatal(err)
				}
				b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: p, Status: status})
			}
			b.runs("a")
			if got := b.events.has(cri.ReasonBandwidthIgnored); got != want {
				t.Errorf("an event with the network %q: %v, want %v", network, got, want)
			}
		})
	}
}
