package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claim records which manifest owns a pod name (namespace/name). It is kept
// across restarts, so that the first owner stays the owner, whatever the order
// of the files.
type claim struct {
	Source Source    `json:"source"`
	Unit   string    `json:"unit"`
	UID    types.UID `json:"uid"`
	// Seen is when that pod was first seen.
	Seen time.Time `json:"seen"`
}

// claimName returns the name that only one pod can own.
func claimName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// unitOffer is a unit as its source offers it, and what is in effect of it. It
// is accepted or rejected as a whole: if one of its pods is rejected, what is
// in effect remains.
type unitOffer struct {
	source     Source
	unit       *Unit
	accepted   Unit
	rejections Faults
}

// content returns the documents that are to be put into effect.
func (o *unitOffer) content() []Document {
	if o.rejections != nil {
		return o.accepted.Documents
	}
	return o.unit.Documents
}

// claimResolver decides which manifest owns which name.
type claimResolver struct {
	// previous are the claims so far.
	previous map[string]claim
	// pending are the sources that are registered and have not delivered yet:
	// the names that they own are reserved for them.
	pending map[Source]bool
}

// claimant is one pod of an offer that claims its name and its UID.
type claimant struct {
	claimedPod
	order int // of the offer
	pod   *v1.Pod
	rank  int
}

// claimedPod identifies one pod in the content of an offer by its index. The
// same pod may occur twice, in one offer or in two.
type claimedPod struct {
	offer *unitOffer
	index int
}

// The ranks of the claimants of a name, best first.
const (
	rankOwner        = iota // has it
	rankSameUnit            // its file has it, with another revision
	rankSamePod             // the same pod from another file: a renamed one
	rankMissingOwner        // has it, but its file was not there at the last scan
	rankOther
)

// lostClaim is a claimant, and which claimant or source owns its name or UID
// instead.
type lostClaim struct {
	loser  claimant
	winner *claimant // nil for a source that is away
	owner  claim
	// byUID is the name of the pod with the loser's UID; empty if the name was
	// lost.
	byUID string
}

// claimGrants are the pods that own their names, and the resulting claims,
// without Seen.
type claimGrants struct {
	claims map[string]claim
	pods   map[claimedPod]bool
}

// resolve gives each name, and each UID, to one pod. The offers are in the
// order of precedence if nothing else decides. It marks the offers that are
// rejected.
func (s *claimResolver) resolve(offers []*unitOffer) claimGrants {
	// dropped are pods in effect that can no longer own their name; they are
	// removed one by one.
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

// nextRejection returns a lost claim that no other rejection can undo, if there
// is one. A missing unit loses its pods one by one, without a fault.
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

// pendingUIDs returns the names of the pods of sources that have not delivered,
// by UID.
func (s *claimResolver) pendingUIDs() map[types.UID]string {
	uids := map[types.UID]string{}
	for name, owner := range s.previous {
		if s.pending[owner.Source] {
			uids[owner.UID] = name
		}
	}
	return uids
}

// reservedForPending reports whether the name belongs to a source that has not
// delivered. The same pod from another source is not a conflict.
func (s *claimResolver) reservedForPending(name string, c *claimant) (claim, bool) {
	owner, ok := s.previous[name]
	return owner, ok && s.pending[owner.Source] && owner.UID != c.pod.UID && !c.isOwner(owner)
}

// isOwner reports whether the claimant is from the unit that has the claim.
func (c *claimant) isOwner(owner claim) bool {
	return owner.Source == c.offer.source && owner.Unit == c.offer.unit.Name
}

func (s *claimResolver) claimants(offers []*unitOffer, dropped map[claimedPod]bool) []claimant {
	var claimants []claimant
	for order, offer := range offers {
		for i, document := range offer.content() {
			if claimed := (claimedPod{offer, i}); !dropped[claimed] {
				claimants = append(claimants, claimant{claimedPod: claimed, order: order, pod: document.Pod,
					rank: s.rank(offer, document.Pod)})
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

// fault names the owner of the name or UID, and what to do.
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
