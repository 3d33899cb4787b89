package summary

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/internal/usage"
)

// collector records what is measured, and fails one of them.
type collector struct {
	measured []string
	fail     string
}

var errMeasure = errors.New("not measured")

func (c *collector) measure(what string, age time.Duration) error {
	c.measured = append(c.measured, what+" "+age.String())
	if what == c.fail {
		return errMeasure
	}
	return nil
}

func (c *collector) Rates(_ context.Context, age time.Duration) (*usage.Node, *usage.Pods, error) {
	return &usage.Node{FS: &usage.Filesystem{}}, &usage.Pods{}, c.measure("rates", age)
}
func (c *collector) Pressure(_ context.Context, age time.Duration) (*usage.Pressures, error) {
	return nil, c.measure("pressure", age)
}
func (c *collector) Disks(_ context.Context, age time.Duration) (*usage.Disks, error) {
	return &usage.Disks{}, c.measure("disks", age)
}
func (c *collector) Traffic(_ context.Context, age time.Duration) (map[types.UID][]usage.Interface, error) {
	return nil, c.measure("traffic", age)
}

// A client that asks for CPU and memory only does not have the disks measured, which takes long.
func TestRead(t *testing.T) {
	for fail, want := range map[string][]string{
		"":         {"rates 1s", "pressure 1s", "disks 1m0s", "claims", "traffic 1s"},
		"rates":    {"rates 1s"},
		"pressure": {"rates 1s", "pressure 1s"},
		"disks":    {"rates 1s", "pressure 1s", "disks 1m0s"},
		"traffic":  {"rates 1s", "pressure 1s", "disks 1m0s", "claims", "traffic 1s"},
	} {
		c := &collector{fail: fail}
		r := Reader{NodeName: "n1", Collector: c, Age: time.Second, DiskAge: time.Minute,
			Claims: func(context.Context) usage.ClaimVolumes {
				c.measured = append(c.measured, "claims")
				return nil
			},
			Pods: func() []*v1.Pod { return nil }}
		got, err := r.Read(t.Context(), false)
		if !slices.Equal(c.measured, want) || errors.Is(err, errMeasure) != (fail != "") {
			t.Errorf("%q fails: measured %q, %v", fail, c.measured, err)
		}
		if s, ok := got.(*Summary); fail == "" && (!ok || s.Node.NodeName != "n1" || s.Node.Fs == nil) {
			t.Errorf("%+v", got)
		}
		if fail != "" {
			continue
		}
		c.measured = nil
		got, err = r.Read(t.Context(), true)
		if s, ok := got.(*Summary); err != nil || !slices.Equal(c.measured, want[:2]) || !ok || s.Node.Fs != nil {
			t.Errorf("CPU and memory only: measured %q, %+v, %v", c.measured, got, err)
		}
	}
}
