package manifest

import (
	"slices"
	"strings"
	"testing"
)

func TestClaimFirstByFileName(t *testing.T) {
	b := newConfigHarness(t)
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "a 2\nb 1"), "ADD file a=1")
	b.wantFault("f2: Pod default/a: metadata.name: pod default/a is already declared in f1",
		"give this pod another name or namespace, or remove the other one")
}

// Without a checkpoint, file takes precedence over http, whichever was registered
// first.
func TestClaimFileBeforeHTTP(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile)
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 2"), "ADD http a=2")
	// The running pod stays.
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1"))
	b.wantFault("f1: Pod default/a", "already declared in u")
	// The other takes over when it is removed.
	b.wantUpdates(b.deliver(SourceHTTP, "u", "empty"), "REMOVE http a=2", "ADD file a=1")
	b.wantFault()
}

func TestClaimSurvivesRestart(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "z", "a 1")
	b.wantUpdates(b.deliver(SourceFile, "b", "a 2", "z", "a 1"))
	b.restart()
	b.wantUpdates(b.deliver(SourceFile, "b", "a 2", "z", "a 1"), "ADD file a=1")
	b.wantFault("b: Pod default/a", "already declared in z")
}

// The names of a source that has not delivered yet are reserved for it.
func TestClaimIsReservedForPendingSource(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile)
	b.deliver(SourceHTTP, "u", "a 1")
	b.restart()
	b.wantUpdates(b.deliver(SourceFile, "f", "a 2"), "ADD file")
	b.wantFault("already declared in u")
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1"), "ADD http a=1")
	b.restart()
	b.deliver(SourceFile, "f", "a 2")
	b.wantUpdates(b.deliver(SourceHTTP, "u", "empty"), "ADD http", "ADD file a=2")
}

func TestClaimOfRemovedSource(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceHTTP, "u", "a 1")
	b.cp = openTestCheckpoint(t, b.path)
	b.config = NewPodConfig(PodConfigOptions{Sources: []Source{SourceFile}, Checkpoint: b.cp, Log: quietLog()})
	b.model = newPodModel(t)
	b.wantUpdates(b.deliver(SourceFile, "f", "a 2"), "ADD file a=2")
}

// A unit is accepted or rejected as a whole: a name conflict changes none of its
// pods, not even across a restart.
func TestClaimRejectionKeepsWholeUnit(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "a 1", "f2", "b 1\nc 1")
	for range 2 {
		b.wantFault()
		b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "a 2\nc 2"))
		b.wantFault("f2: Pod default/a")
		b.restart()
		b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "a 2\nc 2"), "ADD file a=1 b=1 c=1")
		b.wantFault("f2: Pod default/a")
		if fault := b.config.FaultFor("file-c-1"); !strings.Contains(fault, "already declared in f1") {
			t.Fatalf("fault is %q", fault)
		}
		b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "b 1\nc 1"))
	}
	b.deliver(SourceFile, "f1", "a 1", "f2", "a 2\nc 2")
	b.wantUpdates(b.deliver(SourceFile, "f1", "empty", "f2", "a 2\nc 2"), "REMOVE file a=1 b=1 c=1", "ADD file a=2 c=2")
	b.wantFault()
}

// A renamed file is a missing one and a new one with the same pod.
func TestClaimRenamedFile(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "old", "a 1")
	both := b.set(SourceFile, "new", "a 1", "old", "a 1")
	both.Units[1].Missing = true
	b.wantUpdates(b.send(both))
	b.wantFault()
	b.wantUpdates(b.deliver(SourceFile, "new", "a 1"))
	if owner := b.cp.claims()["default/a-node"]; owner.Unit != "new" {
		t.Errorf("owner is %+v", owner)
	}
}

// Renamed and edited together: the removal of the old one must be confirmed.
func TestClaimRenamedAndEdited(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "old", "a 1")
	both := b.set(SourceFile, "new", "a 2", "old", "a 1")
	both.Units[1].Missing = true
	b.wantUpdates(b.send(both))
	b.wantUpdates(b.deliver(SourceFile, "new", "a 2"), "REMOVE file a=1", "ADD file a=2")
	b.wantFault()
}

// The same with a second pod in the file, which has not changed.
func TestClaimRenamedAndPartlyEdited(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "old", "a 1\nb 1")
	both := b.set(SourceFile, "new", "a 1\nb 2", "old", "a 1\nb 1")
	both.Units[1].Missing = true
	b.wantUpdates(b.send(both))
	b.wantUpdates(b.deliver(SourceFile, "new", "a 1\nb 2"), "REMOVE file b=1", "ADD file b=2")
	b.wantFault()
}

func TestClaimOfCopiedFile(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "b", "a 1")
	b.wantUpdates(b.deliver(SourceFile, "a", "a 1", "b", "a 1"))
	b.wantFault("a: Pod default/a", "already declared in b")
	// An edit of the owner takes effect, although the copy has the running pod.
	b.wantUpdates(b.deliver(SourceFile, "a", "a 1", "b", "a 2"), "REMOVE file a=1", "ADD file a=2")
	b.deliver(SourceFile, "a", "a 2", "b", "a 2")
	// The copy takes over without an update.
	b.wantUpdates(b.deliver(SourceFile, "a", "a 2"))
	b.wantFault()
}

func TestClaimsSwapNames(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "a 1", "f2", "b 1")
	b.wantUpdates(b.deliver(SourceFile, "f1", "b 2", "f2", "b 1"))
	b.wantFault("f1: Pod default/b")
	b.wantUpdates(b.deliver(SourceFile, "f1", "b 2", "f2", "a 2"), "REMOVE file a=1 b=1", "ADD file a=2 b=2")
	b.wantFault()
}

func TestClaimPodMovesBetweenUnits(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f1", "a 1\nb 1", "f2", "c 1")
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "b 1\nc 1"))
	b.wantFault()
}

func TestClaimDuplicateUID(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f2", "b 1 fixed")
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1 fixed", "f2", "b 1 fixed"))
	b.wantFault(`f1: Pod default/a: metadata.uid: "fixed" is also the uid of pod default/b-node in f2`)
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1 fixed"), "REMOVE file b=1", "ADD file a=1")
}

func TestClaimFixedUIDIsRenamed(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceFile, "f", "a 1 fixed")
	b.wantUpdates(b.deliver(SourceFile, "f", "b 1 fixed"), "REMOVE file a=1", "ADD file b=1")
}

// A pod with a user-defined uid that moves from a file to the URL is the same pod.
func TestClaimFixedUIDMovesBetweenSources(t *testing.T) {
	b := newConfigHarness(t)
	b.deliver(SourceHTTP)
	b.deliver(SourceFile, "f", "a 1 fixed")
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1 fixed"))
	b.wantUpdates(b.deliver(SourceFile), "UPDATE http a=1")
	b.wantUpdates(b.deliver(SourceHTTP, "u", "a 1 fixed"))
}

// One rejection can free the name for a third manifest.
func TestClaimRejectionFreesName(t *testing.T) {
	b := newConfigHarness(t)
	b.wantUpdates(b.deliver(SourceFile, "f1", "a 1", "f2", "a 2\nb 2", "f3", "b 3"), "ADD file a=1 b=3")
	names := []string{}
	for _, fault := range b.config.Faults() {
		names = append(names, fault.Unit)
	}
	if !slices.Equal(names, []string{"f2"}) {
		t.Errorf("faults are of %v", names)
	}
}
