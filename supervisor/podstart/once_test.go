package podstart

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/manifest"
)

// Each pod and each fault has a line. A revision that cannot be prepared, a pod that does not start and a manifest
// that has no effect are failures; a warning is none.
func TestOnce(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Status: v1.PodStatus{Phase: v1.PodRunning}}
	unavailable := errors.New("the runtime is down")
	for name, c := range map[string]struct {
		held, notStarted string
		startedErr       error
		faults           []manifest.Fault
		lines            string
		want             error
	}{
		"runs":         {faults: []manifest.Fault{{Problem: "unused", Warning: true}}, lines: "shop/web: Running\n"},
		"not prepared": {held: "no image", lines: "shop/web: failed: no image\nshop/web: Running\n", want: ErrNotStarted},
		"not started": {notStarted: "no image", startedErr: ErrNotStarted, lines: "shop/web: failed: no image\n",
			want: ErrNotStarted},
		"fault": {faults: []manifest.Fault{{Unit: "a.yaml", Problem: "is empty"}},
			lines: "shop/web: Running\nfault: a.yaml: is empty\n", want: ErrNotStarted},
		"another error": {startedErr: unavailable, lines: "shop/web: Running\n", want: unavailable},
	} {
		var out strings.Builder
		err := Once{
			SourcesReady: func(context.Context) error { return nil },
			Prepared: func(_ context.Context, held func(name, why string)) error {
				if c.held != "" {
					held("shop/web", c.held)
				}
				return nil
			},
			Started: func(_ context.Context, report func(*v1.Pod, error)) error {
				if c.notStarted != "" {
					report(pod, errors.New(c.notStarted))
				} else {
					report(pod, nil)
				}
				return c.startedErr
			},
			Faults: func() []manifest.Fault { return c.faults },
		}.Run(t.Context(), &out)
		if !errors.Is(err, c.want) || out.String() != c.lines {
			t.Errorf("%s: %v, printed\n%s", name, err, out.String())
		}
	}
}
