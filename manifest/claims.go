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
	source   Source
	unit     *Unit
	accepted Unit
	refusals Faults
}

// content is what is tried to be put into effect.
func (o *unitOffer) content() []Document {
	if o.refusals != nil {
		return o.accepted.Documents
	}
	return o.unit.Documents
}

// claimSettler finds out who owns which name.
type claimSettler struct {
	// before are the claims so far.
	before map[string]claim
	// away are the sources that are going to deliver and have not: what they
	// own is kept for them.
	away map[Source]bool
}

// claimant is one pod of an offer that wants its name and its UID.
type claimant struct {
	offer *unitOffer
	order int // of the offer
	pod   *v1.Pod
	rank  int
}

// The ranks of those who want a name, best first.
const (
	rankOwner     = iota // has it
	rankSameUnit         // its file has it, with another revision
	rankSamePod          // the same pod from another file: a renamed one
	rankGoneOwner        // has it, but its file was not there at the last look
	rankOther
)

// lostClaim is a claimant and who or what has its name or UID instead.
type lostClaim struct {
	loser  claimant
	winner *claimant // nil for a source that is away
	owner  claim
	byUID  bool
}

// settle gives each name, and each UID, to one pod. Offers in the order in
// which they are preferred if nothing else decides. It returns the claims,
// without Seen, and marks the offers that are refused.
func (s *claimSettler) settle(offers []*unitOffer) map[string]claim {
	// What cannot be granted even of what was in effect is dropped by itself.
	dropped := map[*v1.Pod]bool{}
	for {
		won, lost := s.grant(offers, dropped)
		next, ok := nextRefusal(lost)
		if !ok {
			return won
		}
		if next.loser.offer.refusals == nil {
			next.loser.offer.refusals = Faults{}
		} else {
			dropped[next.loser.pod] = true
		}
		if !next.loser.offer.unit.Gone {
			next.loser.offer.refusals = append(next.loser.offer.refusals, next.fault())
		}
	}
}

// nextRefusal is a loss that no other refusal can undo, if there is one.
func nextRefusal(lost []lostClaim) (lostClaim, bool) {
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
func (s *claimSettler) grant(offers []*unitOffer, dropped map[*v1.Pod]bool) (map[string]claim, []lostClaim) {
	claimants := s.claimants(offers, dropped)
	won := make(map[string]claim, len(claimants))
	names := make(map[string]*claimant, len(claimants))
	uids := make(map[types.UID]*claimant, len(claimants))
	var lost []lostClaim
	for i := range claimants {
		c := &claimants[i]
		name := claimName(c.pod)
		if owner, ok := s.keptForAway(name, c); ok {
			lost = append(lost, lostClaim{loser: *c, owner: owner})
			continue
		}
		winner, byUID := names[name], false
		if winner == nil {
			winner, byUID = uids[c.pod.UID], true
		}
		if winner != nil {
			lost = append(lost, lostClaim{loser: *c, winner: winner, owner: won[claimName(winner.pod)], byUID: byUID})
			continue
		}
		names[name], uids[c.pod.UID] = c, c
		won[name] = claim{Source: c.offer.source, Unit: c.offer.unit.Name, UID: c.pod.UID}
	}
	for name, owner := range s.before {
		if _, taken := won[name]; !taken && s.away[owner.Source] {
			won[name] = owner
		}
	}
	return won, lost
}

// keptForAway reports whether the name belongs to a source that has not
// delivered. The same pod from elsewhere is no conflict.
func (s *claimSettler) keptForAway(name string, c *claimant) (claim, bool) {
	owner, ok := s.before[name]
	kept := ok && s.away[owner.Source] && owner.UID != c.pod.UID &&
		(owner.Source != c.offer.source || owner.Unit != c.offer.unit.Name)
	return owner, kept
}

func (s *claimSettler) claimants(offers []*unitOffer, dropped map[*v1.Pod]bool) []claimant {
	var claimants []claimant
	for order, offer := range offers {
		for _, document := range offer.content() {
			if !dropped[document.Pod] {
				claimants = append(claimants, claimant{offer: offer, order: order, pod: document.Pod, rank: s.rank(offer, document.Pod)})
			}
		}
	}
	slices.SortStableFunc(claimants, func(a, b claimant) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.order, b.order))
	})
	return claimants
}

func (s *claimSettler) rank(offer *unitOffer, pod *v1.Pod) int {
	owner, owned := s.before[claimName(pod)]
	sameUnit := owned && owner.Source == offer.source && owner.Unit == offer.unit.Name
	samePod := owned && owner.UID == pod.UID
	switch {
	case offer.unit.Gone && sameUnit:
		return rankGoneOwner
	case offer.unit.Gone:
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
	if l.byUID {
		winner := l.winner.pod
		fault.Path = "metadata.uid"
		fault.Problem = fmt.Sprintf("%q is the uid of Pod %s/%s in %s as well", pod.UID, winner.Namespace, BaseName(winner), l.owner.Unit)
		fault.Remedy = "take the uid out, or give each pod one of its own"
		return fault
	}
	fault.Path = "metadata.name"
	fault.Problem = fmt.Sprintf("pod %s is already declared in %s, which stays in effect", name, l.owner.Unit)
	fault.Remedy = "give this pod another name or namespace, or remove it there: then this one takes over at once"
	if l.owner.Unit == l.loser.offer.unit.Name {
		fault.Problem = fmt.Sprintf("pod %s is declared twice in this file", name)
		fault.Remedy = "give one of them another name or namespace, or take it out"
	}
	return fault
}
