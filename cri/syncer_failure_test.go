package cri_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestSyncReportsFailures(t *testing.T) {
	always := v1.RestartPolicyAlways
	for name, tc := range map[string]struct {
		method string
		fault  critest.Fault
		setup  func(b *syncerHarness)
		key    string
		reason string
		text   string
		event  string
	}{
		"sandbox": {
			method: "RunPodSandbox", fault: critest.Fault{Before: errors.New("no CNI")},
			reason: "CreatePodSandboxError", text: "no CNI", event: "FailedCreatePodSandBox: Failed to create pod sandbox",
		},
		"create": {
			method: "CreateContainer", fault: critest.Fault{Before: errors.New("no space")},
			key: "a", reason: "CreateContainerError", text: "no space", event: "Failed: Error: ",
		},
		"start": {
			setup: func(b *syncerHarness) { b.fake.Behave("a", critest.Behaviour{StartError: "no such command"}) },
			key:   "a", reason: "RunContainerError", text: "no such command", event: "Failed: Error: ",
		},
		"pull": {
			setup: func(b *syncerHarness) { b.fake.SetImages("registry.example/b:1"); b.fake.SetPullable() },
			key:   "a", reason: "ErrImagePull", text: "not found", event: `Failed: Failed to pull image "registry.example/a:1"`,
		},
		"inspect": {
			method: "ImageStatus", fault: critest.Fault{Image: "registry.example/a:1", Before: errors.New("broken store")},
			key: "a", reason: "ImageInspectError", text: "broken store", event: "InspectFailed",
		},
		"never pull": {
			setup: func(b *syncerHarness) {
				b.fake.SetImages("registry.example/b:1")
				b.pod.Spec.Containers[0].ImagePullPolicy = v1.PullNever
			},
			key: "a", reason: "ErrImageNeverPull", text: "not present", event: "ErrImageNeverPull",
		},
		"image name": {
			setup: func(b *syncerHarness) { b.pod.Spec.Containers[0].Image = "registry.example/A:1" },
			key:   "a", reason: "InvalidImageName", text: "not a valid reference", event: "InspectFailed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, pod(always, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
				if tc.setup != nil {
					tc.setup(b)
				}
				if tc.method != "" {
					b.fake.Inject(tc.method, tc.fault)
				}
				r := b.sync()
				w := r.Waiting[tc.key]
				if r.Err == nil || w.Reason != tc.reason || !strings.Contains(w.Message, tc.text) || len(r.Waiting) != 1 {
					t.Errorf("got %+v", r)
				}
				if strings.Contains(w.Message, "rpc error") {
					t.Errorf("message %q mentions gRPC", w.Message)
				}
				if !b.events.has(tc.event) {
					t.Errorf("no event %q in %q", tc.event, b.events.list)
				}
				if tc.key != "" {
					b.runs("b") // the others still start
				}
			})
		})
	}
}

func TestSyncInputsFail(t *testing.T) {
	withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a", "b"}), func(t *testing.T, b *syncerHarness) {
		r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID},
			ResolveInputs: func(_ context.Context, c *v1.Container, _ []string) (cri.Inputs, error) {
				if c.Name == "a" {
					return cri.Inputs{}, errors.New("the pod has no volume \"x\"")
				}
				return cri.Inputs{}, nil
			}})
		if w := r.Waiting["a"]; w.Reason != "CreateContainerConfigError" || w.Message != "the pod has no volume \"x\"" ||
			r.Err == nil {
			t.Errorf("got %+v", r)
		}
		b.runs("b")
	})
}

// A container that can never be created is retried forever; files made for each
// attempt must not accumulate.
func TestSyncRemovesWhatAFailedCreateLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		fault critest.Fault
		kept  bool
	}{
		"refused":     {fault: critest.Fault{Before: errors.New("no space")}},
		"lost answer": {fault: critest.Fault{DisconnectAfter: true}, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			withTestbed(t, pod(v1.RestartPolicyAlways, []string{"a"}), func(t *testing.T, b *syncerHarness) {
				file := filepath.Join(b.dir, "message")
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				b.fake.Inject("CreateContainer", tc.fault)
				r := b.syncer.Sync(t.Context(), cri.SyncRequest{Pod: b.pod, Status: &cri.PodStatus{UID: b.pod.UID},
					ResolveInputs: func(context.Context, *v1.Container, []string) (cri.Inputs, error) {
						return cri.Inputs{TerminationMessageHost: file}, nil
					}})
				if r.Err == nil {
					t.Fatal("the container was made")
				}
				if _, err := os.Stat(file); (err == nil) != tc.kept {
					t.Errorf("file for the termination message: %v, want kept %v", err, tc.kept)
				}
			})
		})
	}
}
