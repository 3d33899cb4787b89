package cluster

// uniqueList is a list without duplicates, in the order of the first additions. The zero value is empty. Tenants
// decide how long it is, so that an addition does not scan it.
type uniqueList[T comparable] struct {
	items []T
	known map[T]bool
}

// add appends an item unless the list has it, and reports whether it did.
func (l *uniqueList[T]) add(item T) bool {
	if l.known[item] {
		return false
	}
	if l.known == nil {
		l.known = map[T]bool{}
	}
	l.known[item] = true
	l.items = append(l.items, item)
	return true
}
