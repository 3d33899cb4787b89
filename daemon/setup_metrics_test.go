package daemon

import (
	"testing"

	"github.com/podstead/podstead/manifest"
)

// A source that was read in full is ready also if one of its manifests is invalid and has no
// last good revision.
func TestManifestMetricsOfIncompleteSource(t *testing.T) {
	fault := manifest.Fault{Unit: "/m/x.yaml", Problem: "is not valid"}
	views := []manifest.SourceView{
		{Source: manifest.SourceFile, Incomplete: []string{"/m/x.yaml"}, Units: []manifest.UnitView{{Name: "/m/x.yaml", Faults: manifest.Faults{fault}}}},
		{Source: manifest.SourceHTTP, Fault: &fault},
	}
	got := manifestsOf(views)
	if !got[0].Ready || got[0].Incomplete != 1 || got[0].Faults != 1 {
		t.Errorf("incomplete source: %+v", got[0])
	}
	if got[1].Ready || got[1].Incomplete != 0 {
		t.Errorf("source that was not read: %+v", got[1])
	}
}
