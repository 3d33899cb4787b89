package kubeapi

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/internal/statefile"
)

// BenchmarkPods lists 500 pods, without changes and after a change of one of them.
func BenchmarkPods(b *testing.B) {
	versions := OpenVersions("", statefile.Disk{})
	pods := make([]*v1.Pod, 500)
	for i := range pods {
		pods[i] = pod("shop", fmt.Sprintf("web-%d", i), v1.PodRunning)
	}
	api := New(Config{Versions: versions, Sources: Sources{Pods: PodSource(func() []*v1.Pod { return pods }, nil)}})
	for name, accept := range map[string]string{"full": "application/json",
		"table": "application/json;as=Table;v=v1;g=meta.k8s.io"} {
		for _, changed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/changed=%v", name, changed), func(b *testing.B) {
				for b.Loop() {
					if changed {
						own := *pods[7]
						own.Status.Message += "x"
						own.Status.Message = own.Status.Message[:len(own.Status.Message)%9]
						pods[7] = &own
					}
					r := httptest.NewRequestWithContext(context.Background(), "GET", "/api/v1/pods", nil)
					r.Header.Set("Accept", accept)
					w := httptest.NewRecorder()
					api.ServeHTTP(w, r)
					if w.Code != 200 {
						b.Fatal(w.Code, w.Body)
					}
				}
			})
		}
	}
}
