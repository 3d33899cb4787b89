package evict

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeClaims are claims on the node's file system.
type fakeClaims []Claim

func (c fakeClaims) NodeClaims(context.Context) []Claim { return c }

func (b *evictorHarness) diskMessage() string {
	for _, c := range b.NodeConditions(time.Now()) {
		if c.Type == v1.NodeDiskPressure {
			return c.Message
		}
	}
	return ""
}

// A disk that a claim or a pod fills which may not be evicted is not blamed on other files: the condition of the
// node and the event name the largest users, with their sizes.
func TestUsersOfAFullDiskAreNamed(t *testing.T) {
	claims := fakeClaims{
		{Namespace: "default", Name: "data", Pods: []string{"default/db", "default/web"},
			Space: Space{Bytes: 700 << 20, Inodes: 3}},
		{Namespace: "prod", Name: "old", Space: Space{Bytes: 110 << 20, Inodes: 80}},
		{Namespace: "prod", Name: "empty"},
	}
	for name, c := range map[string]struct {
		threshold, want string
		separate        bool
	}{
		"bytes": {"nodefs.available<10%",
			"nodefs.available is 50Mi, below the threshold of 10%; the disk is filled by claim " +
				"default/data of pod default/db, default/web (700Mi), claim prod/old (110Mi), other files (90Mi)", false},
		"inodes": {"nodefs.inodesFree<10%", "nodefs.inodesFree is 50, below the threshold of 10%; the disk is filled by " +
			"other files (667 inodes), pod default/system (200 inodes), claim prod/old (80 inodes)", false},
		"images on a disk of their own": {"imagefs.available<10%",
			"imagefs.available is 50Mi, below the threshold of 10%; other " +
				"files fill the disk", true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *evictorHarness) {
				b.separate = c.separate
				for _, s := range []Signal{NodeFSAvailable, ImageFSAvailable} {
					b.levels[s] = Level{Available: 900 << 20, Capacity: 1000 << 20}
				}
				b.levels[NodeFSInodes] = Level{Available: 900, Capacity: 1000}
				b.pods = []*v1.Pod{pod("system", 2_000_000_000)}
				b.usage = map[types.UID]Usage{"system": {Disk: Disk{Logs: space(50<<20, 200)}}}
				b.start(c.threshold, func(cfg *Config) { cfg.Claims = claims })
				if got := b.diskMessage(); got != "the node has no disk pressure" {
					t.Errorf("without pressure: %q", got)
				}
				signal, _ := signalNamed(strings.Split(c.threshold, "<")[0])
				low := int64(50)
				if signal.Resource() == v1.ResourceEphemeralStorage {
					low <<= 20
				}
				b.set(signal, low)
				time.Sleep(25 * time.Second)
				if got := b.diskMessage(); got != "the node has disk pressure: "+c.want {
					t.Errorf("the condition is %q, want %q", got, c.want)
				}
				events := b.now().events
				_, users, filled := strings.Cut(c.want, "is filled by ")
				if len(events) != 2 || filled && (!strings.Contains(events[1], "the disk is filled by "+users+". Free") ||
					strings.Contains(events[1], "other files fill")) || !filled && !strings.Contains(events[1], "other files") {
					t.Errorf("events %q", events)
				}
				b.set(signal, low*10)
				time.Sleep(25 * time.Second)
				if got := b.diskMessage(); got != "the node has disk pressure" {
					t.Errorf("until the transition period is over: %q", got)
				}
			})
		})
	}
}
