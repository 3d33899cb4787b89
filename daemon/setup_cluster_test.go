package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/podstead/podstead/cri"
)

// Only a runtime without the call for address ranges is not asked again.
func TestPodCIDRUpdater(t *testing.T) {
	for _, test := range []struct {
		err         error
		unsupported bool
	}{{nil, false}, {cri.ErrUnavailable, false}, {fmt.Errorf("set the pod CIDR: %w", cri.ErrUnimplemented), true}} {
		got := podCIDRUpdater(func(context.Context, string) error { return test.err })(t.Context(), "10.1.0.0/24")
		if !errors.Is(got, test.err) || errors.Is(got, errors.ErrUnsupported) != test.unsupported {
			t.Errorf("%v became %v", test.err, got)
		}
	}
}
