package cri_test

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
)

// A runtime that does not know CDI devices would start the container without them: it waits, and
// starts after the runtime was upgraded.
func TestCDIDevicesNeedTheRuntime(t *testing.T) {
	p := pod(v1.RestartPolicyAlways, []string{"a"})
	withTestbed(t, p, func(t *testing.T, b *syncerHarness) {
		sync := func() cri.SyncResult {
			status, err := b.client.PodStatus(t.Context(), p.UID)
			if err != nil {
				t.Fatal(err)
			}
			return b.syncer.Sync(t.Context(),
				cri.SyncRequest{Pod: p, Status: status,
					ResolveInputs: func(context.Context, *v1.Container, []string) (cri.Inputs, error) {
						return cri.Inputs{CDIDevices: []string{"example.com/serial=a"}}, nil
					}})
		}
		b.fake.SetVersion("containerd", "1.6.20~ds1", nil)
		r := sync()
		why := r.Waiting["a"]
		if why.Reason != "CreateContainerConfigError" || !strings.Contains(why.Message, "example.com/serial=a") ||
			!strings.Contains(why.Message, "containerd 1.7 or later") {
			t.Errorf("got %+v", r)
		}
		b.fake.SetVersion("containerd", "1.7.0", nil)
		b.fake.SetConfig(`{"enableCDI": false}`)
		b.restart() // without the back-off of the failed start
		if why := sync().Waiting["a"]; why.Reason != "CreateContainerConfigError" ||
			!strings.Contains(why.Message, "enable_cdi = true") {
			t.Errorf("got %+v without enable_cdi", why)
		}
		b.fake.SetConfig(`{"enableCDI": true}`)
		b.restart()
		sync()
		sync()
		b.runs("a")
		a, _ := b.fake.Newest("a")
		if d := a.Config.GetCDIDevices(); len(d) != 1 || d[0].GetName() != "example.com/serial=a" {
			t.Errorf("the runtime got the CDI devices %v", d)
		}
	})
}
