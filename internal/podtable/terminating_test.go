package podtable

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that terminates reports what it waits for. The deletion time of a pod of an API server is the end of its
// grace period, that of a manifest's pod the beginning.
func TestTerminating(t *testing.T) {
	now, grace := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), int64(30)
	for _, c := range []struct {
		name, source, message string
		at                    time.Duration
		grace                 *int64
		want                  string
	}{
		{"grace period", "file", "", -10 * time.Second, &grace, "its grace period of 30s ends in 20s"},
		{"grace period, API server", "api", "", 20 * time.Second, &grace, "its grace period of 30s ends in 20s"},
		{"too long", "http", "", -40 * time.Second, &grace, "it has not stopped since its grace period of 30s ended 10s ago"},
		{"too long, API server", "api", "", -10 * time.Second, &grace,
			"it has not stopped since its grace period of 30s ended 10s ago"},
		{"failure", "file", "error killing pod: x", -time.Second, &grace, "error killing pod: x"},
		{"unknown", "file", "", -time.Second, nil, ""},
	} {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": c.source}}}
		if got := Terminating(p, now); got != "" {
			t.Errorf("%s: %q of a pod that runs", c.name, got)
		}
		at := metav1.NewTime(now.Add(c.at))
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Status.Message = &at, c.grace, c.message
		if got := Terminating(p, now); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
