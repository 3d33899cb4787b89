package cluster

// namespaceFloor is the part of a budget that a namespace may have whatever others use, one in
// namespaceFloor, so that no other namespace keeps its pods from running.
const namespaceFloor = 32

// memoryShares is the memory that namespaces use of a budget, in bytes.
type memoryShares struct {
	max int
	// sizes are by namespace, total is their sum.
	sizes map[string]int
	total int
}

// fits reports whether what had a size may have another one. A namespace may have half of what
// the others leave, and a small part if they leave nothing.
func (s *memoryShares) fits(namespace string, before, size int) bool {
	own := s.sizes[namespace]
	return own-before+size <= max((s.max-(s.total-own))/2, s.floor())
}

// floor is the part that a namespace may always have.
func (s *memoryShares) floor() int { return s.max / namespaceFloor }

// resize changes what a namespace uses.
func (s *memoryShares) resize(namespace string, by int) {
	s.total += by
	if s.sizes[namespace] += by; s.sizes[namespace] == 0 {
		delete(s.sizes, namespace)
	}
}
