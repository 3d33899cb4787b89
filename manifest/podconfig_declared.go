package manifest

// Declared reports where an object that is in effect comes from.
type Declared struct {
	Source Source
	// Unit is the file path, URL or artifact.
	Unit string
	// Digest is that of its Document or Object.
	Digest string
}

// PodDigests returns the digests of the documents of all pods in effect, by the namespace and the
// full name of the pod.
func (c *PodConfig) PodDigests() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	digests := map[string]string{}
	for _, source := range c.sources {
		for i := range c.states[source].units {
			for _, document := range c.states[source].units[i].Documents {
				digests[document.Pod.Namespace+"/"+document.Pod.Name] = document.Digest
			}
		}
	}
	return digests
}

// Declaration returns where an object in effect comes from, false if there is none. The name of a
// static pod is that in its manifest.
func (c *PodConfig) Declaration(ref ObjectRef) (Declared, bool) {
	if ref.Kind != kindPod {
		entry := c.objects.inEffect()[ref]
		if entry == nil {
			return Declared{}, false
		}
		return Declared{Source: entry.source, Unit: entry.unit, Digest: entry.object.Digest}, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, source := range c.sources {
		for i := range c.states[source].units {
			unit := &c.states[source].units[i]
			for _, document := range unit.Documents {
				if document.Pod.Namespace == ref.Namespace && BaseName(document.Pod) == ref.Name {
					return Declared{Source: source, Unit: unit.Name, Digest: document.Digest}, true
				}
			}
		}
	}
	return Declared{}, false
}
