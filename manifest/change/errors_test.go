package change

import (
	"strings"
	"testing"

	"github.com/podstead/podstead/manifest"
)

// Why a file is not in effect is in its fault, and nowhere else in the message.
func TestSourceErrorOfUnreadableFile(t *testing.T) {
	err := sourceError(web, manifest.SourceFile, "/etc/pods/web.yaml", false, manifest.Faults{
		{Unit: "/etc/pods/web.yaml", Problem: "cannot be read: permission denied", Remedy: "make it readable for podstead"}})
	if err == nil || strings.Count(err.Error(), "cannot be read") != 1 {
		t.Errorf("got %v", err)
	}
}
