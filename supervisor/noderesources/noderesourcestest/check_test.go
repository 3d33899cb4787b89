package noderesourcestest

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/supervisor/noderesources"
)

type misspelt struct{ noderesources.NeverRefuses }

func (misspelt) Name() string      { return "misspelt" }
func (misspelt) Release(types.UID) {}

type right struct{ noderesources.NeverRefuses }

func (right) Name() string                                   { return "right" }
func (right) Release(context.Context, types.UID, bool) error { return nil }

// A method that would never be called because it has another signature is found.
func TestWrongSignature(t *testing.T) {
	if err := CheckMethods(misspelt{}); err == nil || !strings.Contains(err.Error(), "the method Release of misspelt") {
		t.Errorf("%v", err)
	}
	if err := CheckMethods(right{}); err != nil {
		t.Error(err)
	}
}
