package cluster

import (
	v1 "k8s.io/api/core/v1"
)

// State returns a revision of all that a pod refers to: when it changes the pod
// must be synced. awaited lists what the API server has not answered yet.
func (o *Objects) State(pod *v1.Pod) (revision string, awaited []string) {
	if why := o.Held(pod); why != "" {
		// None of its objects is known, which is not the same as removed.
		return "held: " + why, []string{"what it refers to"}
	}
	refs, tokens, claims := o.watchedBy(pod), tokensOf(pod), claimsOf(pod)
	o.mu.Lock()
	defer o.mu.Unlock()
	revision, secrets, driverTokens, awaited := o.csiState(pod)
	for _, ref := range secrets {
		addOnce(&refs, ref)
	}
	for _, key := range driverTokens {
		addOnce(&tokens, key)
	}
	for _, ref := range refs {
		e := o.entries[ref]
		state := "?"
		switch {
		case e == nil || !e.known && e.err == nil:
			awaited = append(awaited, ref.String())
		case e.err != nil:
			state = e.revision + "!" + e.err.Error()
		default:
			state = e.revision
		}
		revision += ref.String() + "=" + state + "\n"
	}
	for _, key := range tokens {
		state, known := o.tokens[key].state()
		if !known {
			awaited = append(awaited, "token of ServiceAccount "+key.namespace+"/"+key.account)
		}
		revision += "token for " + key.audience + "=" + state + "\n"
	}
	for _, key := range claims {
		state, known := o.claims[key].state()
		what := "PersistentVolumeClaim " + key.namespace + "/" + key.name
		if !known {
			awaited = append(awaited, what)
		}
		revision += what + "=" + state + "\n"
	}
	return revision, awaited
}
