package manifest

import "testing"

// A source that was read in full is ready also if one of its manifests is invalid and has no
// last good revision.
func TestReadinessOfIncompleteSource(t *testing.T) {
	fault := Fault{Unit: "/m/x.yaml", Problem: "is not valid"}
	warning := Fault{Unit: "/m/y.yaml", Problem: "has no effect", Warning: true}
	incomplete := SourceView{
		Source: SourceFile, Incomplete: []string{"/m/x.yaml"},
		Units: []UnitView{{Name: "/m/x.yaml", Faults: Faults{fault}}, {Name: "/m/y.yaml", Faults: Faults{warning}}},
	}
	if faults, warnings := incomplete.CountFaults(); !incomplete.Ready() || faults != 1 || warnings != 1 {
		t.Errorf("incomplete source: ready %t, %d faults, %d warnings", incomplete.Ready(), faults, warnings)
	}
	unread := SourceView{Source: SourceHTTP, Fault: &fault}
	if faults, _ := unread.CountFaults(); unread.Ready() || faults != 1 {
		t.Errorf("source that was not read: ready %t, %d faults", unread.Ready(), faults)
	}
}
