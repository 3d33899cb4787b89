package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A claim says which manifest owns a pod name (namespace/name). It outlasts
// restarts: who was first stays first, whatever the order of the files.
type claim struct {
	Source Source    `json:"source"`
	Unit   string    `json:"unit"`
	UID    types.UID `json:"uid"`
	// Seen is when that pod was first seen.
	Seen time.Time `json:"seen"`
}

// claimName is what only one pod can have.
func claimName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// unitOffer is a unit as its source offers it, and what is in effect of it.
// It is taken whole or not at all: if one of its pods is refused, what is in
// effect stays.
type unitOffer struct {
	source     Source
	unit       *Unit
	accepted   Unit
	rejections Faults
}

// content is what is tried to be put into effect.
func (o *unitOffer) content() []Document {
	if o.rejections != nil {
		return o.accepted.Documents
	}
	return o.unit.Documents
}

// claimResolver finds out who owns which name.
type claimResolver struct {
	// before are the claims so far.
	previous map[string]claim
	// away are the sources that are going to deliver and have not: what they
	// own is kept for them.
	pending map[Source]bool
}

// claimant is one pod of an offer that wants its name and its UID.
type claimant struct {
	claimedPod
	order int // of the offer
	pod   *v1.Pod
	rank  int
}

// claimedPod is one pod of the content of one offer, by its index. The pod
// itself may be there twice, in one offer or in two.
type claimedPod struct {
	offer *unitOffer
	index int
}

// The ranks of those who want a name, best first.
const (
	rankOwner        = iota // has it
	rankSameUnit            // its file has it, with another revision
	rankSamePod             // the same pod from another file: a renamed one
	rankMissingOwner        // has it, but its file was not there at the last look
	rankOther
)

// lostClaim is a claimant and who or what has its name or UID instead.
type lostClaim struct {
	loser  claimant
	winner *claimant // nil for a source that is away
	owner  claim
	// byUID is the name of the pod that has the loser's UID; empty if it is
	// the name that was lost.
	byUID string
}

// claimGrants are the pods that have their names, and the claims that make of
// that, without Seen.
type claimGrants struct {
	claims map[string]claim
	pods   map[claimedPod]bool
}

// settle gives each name, and each UID, to one pod. Offers in the order in
// which they are preferred if nothing else decides. It marks the offers that
// are refused.
func (s *claimResolver) resolve(offers []*unitOffer) claimGrants {
	// What cannot be granted even of what was in effect is dropped by itself.
	dropped := map[claimedPod]bool{}
	for {
		granted, lost := s.grant(offers, dropped)
		next, ok := nextRejection(lost)
		if !ok {
			return granted
		}
		if next.loser.offer.rejections == nil {
			next.loser.offer.rejections = Faults{}
		} else {
			dropped[next.loser.claimedPod] = true
		}
		next.loser.offer.rejections = append(next.loser.offer.rejections, next.fault())
	}
}

// nextRejection is a loss that no other refusal can undo, if there is one. A
// unit that is gone loses pod by pod, and nobody needs to be told.
func nextRejection(lost []lostClaim) (lostClaim, bool) {
	lost = slices.DeleteFunc(lost, func(l lostClaim) bool { return l.loser.offer.unit.Missing })
	if len(lost) == 0 {
		return lostClaim{}, false
	}
	losers := map[*unitOffer]bool{}
	for i := range lost {
		losers[lost[i].loser.offer] = true
	}
	for i := range lost {
		if winner := lost[i].winner; winner == nil || !losers[winner.offer] {
			return lost[i], true
		}
	}
	return lost[0], true
}

// grant is one round: the best claimant of each name and UID wins.
func (s *claimResolver) grant(offers []*unitOffer, dropped map[claimedPod]bool) (claimGrants, []lostClaim) {
	claimants := s.claimants(offers, dropped)
	granted := claimGrants{claims: make(map[string]claim, len(claimants)), pods: make(map[claimedPod]bool, len(claimants))}
	names := make(map[string]*claimant, len(claimants))
	uids := make(map[types.UID]*claimant, len(claimants))
	awayUIDs := s.pendingUIDs()
	var lost []lostClaim
	for i := range claimants {
		c := &claimants[i]
		name := claimName(c.pod)
		if owner, ok := s.reservedForPending(name, c); ok {
			lost = append(lost, lostClaim{loser: *c, owner: owner})
			continue
		}
		if owner, ok := awayUIDs[c.pod.UID]; ok && owner != name && !c.isOwner(s.previous[owner]) {
			lost = append(lost, lostClaim{loser: *c, owner: s.previous[owner], byUID: owner})
			continue
		}
		if winner := names[name]; winner != nil {
			lost = append(lost, lostClaim{loser: *c, winner: winner, owner: granted.claims[name]})
			continue
		}
		if winner := uids[c.pod.UID]; winner != nil {
			other := claimName(winner.pod)
			lost = append(lost, lostClaim{loser: *c, winner: winner, owner: granted.claims[other], byUID: other})
			continue
		}
		names[name], uids[c.pod.UID] = c, c
		granted.claims[name] = claim{Source: c.offer.source, Unit: c.offer.unit.Name, UID: c.pod.UID}
		granted.pods[c.claimedPod] = true
	}
	for name, owner := range s.previous {
		if _, taken := granted.claims[name]; !taken && s.pending[owner.Source] {
			granted.claims[name] = owner
		}
	}
	return granted, lost
}

// awayUIDs are the names of the pods of sources that have not delivered, by
// UID.
func (s *claimResolver) pendingUIDs() map[types.UID]string {
	uids := map[types.UID]string{}
	for name, owner := range s.previous {
		if s.pending[owner.Source] {
			uids[owner.UID] = name
		}
	}
	return uids
}

// keptForAway reports whether the name belongs to a source that has not
// delivered. The same pod from elsewhere is no conflict.
func (s *claimResolver) reservedForPending(name string, c *claimant) (claim, bool) {
	owner, ok := s.previous[name]
	return owner, ok && s.pending[owner.Source] && owner.UID != c.pod.UID && !c.isOwner(owner)
}

// isOf reports whether the claimant is of the unit that has the claim.
func (c *claimant) isOwner(owner claim) bool {
	return owner.Source == c.offer.source && owner.Unit == c.offer.unit.Name
}

func (s *claimResolver) claimants(offers []*unitOffer, dropped map[claimedPod]bool) []claimant {
	var claimants []claimant
	for order, offer := range offers {
		for i, document := range offer.content() {
			if claimed := (claimedPod{offer, i}); !dropped[claimed] {
				claimants = append(claimants, claimant{claimedPod: claimed, order: order, pod: document.Pod, rank: s.rank(offer, document.Pod)})
			}
		}
	}
	slices.SortStableFunc(claimants, func(a, b claimant) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	return claimants
}

func (s *claimResolver) rank(offer *unitOffer, pod *v1.Pod) int {
	owner, owned := s.previous[claimName(pod)]
	sameUnit := owned && owner.Source == offer.source && owner.Unit == offer.unit.Name
	samePod := owned && owner.UID == pod.UID
	switch {
	case offer.unit.Missing && sameUnit:
		return rankMissingOwner
	case offer.unit.Missing:
		return rankOther
	case sameUnit && samePod:
		return rankOwner
	case sameUnit:
		return rankSameUnit
	case samePod:
		return rankSamePod
	}
	return rankOther
}

// fault tells the loser's author who has the name and what to do.
func (l *lostClaim) fault() Fault {
	pod := l.loser.pod
	name := pod.Namespace + "/" + BaseName(pod)
	fault := Fault{Unit: l.loser.offer.unit.Name, Object: "Pod " + name}
	if l.byUID != "" {
		fault.Path = "metadata.uid"
		fault.Problem = fmt.Sprintf("%q is also the uid of pod %s in %s", pod.UID, l.byUID, l.owner.Unit)
		fault.Remedy = "remove the uid, or give each pod its own"
		return fault
	}
	fault.Path = "metadata.name"
	fault.Problem = fmt.Sprintf("pod %s is already declared in %s, which remains in effect", name, l.owner.Unit)
	fault.Remedy = "give this pod another name or namespace, or remove the other one: then this one takes over at once"
	if l.owner.Unit == l.loser.offer.unit.Name {
		fault.Problem = fmt.Sprintf("pod %s is declared twice in this file", name)
		fault.Remedy = "give one of them another name or namespace, or remove it"
	}
	return fault
}
