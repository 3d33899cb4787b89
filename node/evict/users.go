package evict

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Claim is the volume of a PersistentVolumeClaim on the node's file system. No eviction frees it.
type Claim struct {
	Namespace, Name string
	// Pods are the pods that use it, as namespace/name.
	Pods  []string
	Space Space
}

// Claims lists the volumes of claims that are on the node's file system. Implemented over the volumes.
type Claims interface {
	NodeClaims(ctx context.Context) []Claim
}

// maxUsers is the maximum number of users of a disk that a message names.
const maxUsers = 3

// diskUsers names the pods and claims that use most of a disk that is short, and other files, with their sizes,
// the largest first, without those that use less than least; empty if no pod or claim uses as much.
func (e *Evictor) diskUsers(ctx context.Context, t *Threshold, least int64, usage map[types.UID]Usage) string {
	type user struct {
		name string
		used int64
	}
	var users []user
	separate := e.cfg.Resources.SeparateImageFS()
	for _, pod := range e.cfg.Pods.List() {
		used, _ := usageOf(pod, usage[pod.UID], t.Signal, separate)
		users = append(users, user{"pod " + pod.Namespace + "/" + pod.Name, used})
	}
	if e.cfg.Claims != nil && (!t.Signal.isImageFS() || !separate) {
		ctx, cancel := context.WithTimeout(ctx, claimsTimeout)
		defer cancel()
		for _, c := range e.cfg.Claims.NodeClaims(ctx) {
			name := "claim " + c.Namespace + "/" + c.Name
			if len(c.Pods) > 0 {
				name += " of pod " + strings.Join(c.Pods, ", ")
			}
			users = append(users, user{name, t.Signal.amount(c.Space)})
		}
	}
	level := e.levels[t.Signal]
	rest := level.Capacity - level.Available
	for _, u := range users {
		rest -= u.used
	}
	users = slices.DeleteFunc(users, func(u user) bool { return u.used < least })
	if len(users) == 0 {
		return ""
	}
	if rest >= least {
		users = append(users, user{"other files", rest})
	}
	slices.SortStableFunc(users, func(a, b user) int {
		return cmp.Or(cmp.Compare(b.used, a.used), strings.Compare(a.name, b.name))
	})
	var texts []string
	for _, u := range users[:min(len(users), maxUsers)] {
		unit := ""
		if t.Signal.Resource() != v1.ResourceEphemeralStorage {
			unit = " inodes"
		}
		texts = append(texts, fmt.Sprintf("%s (%s%s)", u.name, amountText(t.Signal, u.used), unit))
	}
	return strings.Join(texts, ", ")
}

// filledBy reports what fills a disk, by the users that diskUsers names.
func filledBy(users string) string {
	if users == "" {
		return "other files fill the disk"
	}
	return "the disk is filled by " + users
}

// findUsers finds out what fills a disk that is short and which no eviction relieves, for the condition of the
// node.
func (e *Evictor) findUsers(ctx context.Context, t *Threshold) string {
	if !t.Signal.isDisk() {
		return ""
	}
	level := e.levels[t.Signal]
	users := e.diskUsers(ctx, t, max(leastUse(t, level), 1), e.measure(ctx, t.Signal))
	cause := shortText(t, level) + "; " + filledBy(users)
	e.mu.Lock()
	e.diskCause = cause
	e.mu.Unlock()
	return users
}
