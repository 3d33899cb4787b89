package evict

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var settingNames = [4]string{"--hard", "--soft", "--grace", "--reclaim"}

func TestSettings(t *testing.T) {
	type m = map[string]string
	for name, c := range map[string]struct {
		in   Settings
		want string // signal, amount, soft, grace, reclaim of each
	}{
		"none": {},
		"defaults": {Settings{Hard: DefaultHard},
			"imagefs.available 15% false 0s 0;imagefs.inodesFree 5% false 0s 0;memory.available 100Mi false 0s 0;" +
				"allocatableMemory.available 100Mi false 0s 0;nodefs.available 10% false 0s 0;nodefs.inodesFree 5% false 0s 0"},
		"soft": {Settings{Soft: m{"memory.available": "1Gi"}, SoftGrace: m{"memory.available": "1m30s"}},
			"memory.available 1Gi true 1m30s 0"},
		"reclaim": {Settings{Hard: m{"pid.available": "1000"}, MinReclaim: m{"pid.available": "2.5%"}},
			"pid.available 1000 false 0s 2.5%"},
		"zero and 100% are no threshold": {
			Settings{Hard: m{"nodefs.available": "0", "imagefs.available": "0%", "nodefs.inodesFree": "100%"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := c.in.Parse(settingNames)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, th := range list {
				got = append(got, fmt.Sprint(th.Signal, " ", th.Min, " ", th.Soft, " ", th.Grace, " ", th.Reclaim))
			}
			if text := strings.Join(got, ";"); text != c.want {
				t.Errorf("%s\nwant %s", text, c.want)
			}
		})
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	type m = map[string]string
	for want, in := range map[string]Settings{
		"--hard: memory.free: unknown signal; must be one of imagefs.available": {
			Hard: m{"memory.free": "1Mi"}},
		`--hard: memory.available: "lots" is not a valid eviction threshold; write one such as 500Mi or 10%`: {
			Hard: m{"memory.available": "lots"}},
		`--hard: nodefs.available: "101%" is not a valid`: {
			Hard: m{"nodefs.available": "101%"}},
		`--hard: nodefs.inodesFree: "-5" is not a valid eviction threshold; write one such as 1000 or 5%`: {
			Hard: m{"nodefs.inodesFree": "-5"}},
		"--soft: memory.available: needs its time in --grace, such as 1m30s": {
			Soft: m{"memory.available": "1Gi"}},
		`--grace: memory.available: "soon" is no duration; write one such as 1m30s`: {
			Soft: m{"memory.available": "1Gi"}, SoftGrace: m{"memory.available": "soon"}},
		"--grace: memory.available: there is no --soft for it; add one, or take this out": {
			SoftGrace: m{"memory.available": "1s"}},
		`--reclaim: pid.available: "x" is not a valid eviction threshold`: {MinReclaim: m{"pid.available": "x"}},
		"--hard: allocatableMemory.available: unknown signal":             {Hard: m{"allocatableMemory.available": "1Mi"}},
	} {
		if _, err := in.Parse(settingNames); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestHardMin(t *testing.T) {
	list, err := Settings{
		Hard: map[string]string{"memory.available": "100Mi", "nodefs.available": "10%"},
		Soft: map[string]string{"memory.available": "1Gi"}, SoftGrace: map[string]string{"memory.available": "1s"},
	}.Parse(settingNames)
	if err != nil {
		t.Fatal(err)
	}
	if got := HardMin(list, MemoryAvailable, 1<<30); got != 100<<20 {
		t.Errorf("%d of memory", got)
	}
	if got := HardMin(list, NodeFSAvailable, 1005); got != 101 {
		t.Errorf("%d of disk", got)
	}
	if got := HardMin(list, PIDAvailable, 1000); got != 0 {
		t.Errorf("%d process IDs", got)
	}
}

// at returns a time in seconds for tests.
func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}
