package cluster

// namespaceFloor is the part of a limit that a namespace may have whatever others use, one in
// namespaceFloor, so that no other namespace keeps its pods from running.
const namespaceFloor = 32

// namespaceShares is what namespaces use of a limit, such as bytes of memory.
type namespaceShares struct {
	max int
	// used is by namespace, total is the sum.
	used  map[string]int
	total int
}

func newNamespaceShares(limit int) namespaceShares {
	return namespaceShares{max: limit, used: map[string]int{}}
}

// fits reports whether what had a size may have another one. A namespace may have half of what
// the others leave, and a small part if they leave nothing.
func (s *namespaceShares) fits(namespace string, before, size int) bool {
	own := s.used[namespace]
	return own-before+size <= max((s.max-(s.total-own))/2, s.floor())
}

// floor is the part that a namespace may always have.
func (s *namespaceShares) floor() int { return s.max / namespaceFloor }

// resize changes what a namespace uses.
func (s *namespaceShares) resize(namespace string, by int) {
	s.total += by
	if s.used[namespace] += by; s.used[namespace] == 0 {
		delete(s.used, namespace)
	}
}
