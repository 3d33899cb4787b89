package stats

import (
	"context"
	"time"
)

// shared is a measurement that several callers may request, each with a maximum
// age. One caller at a time measures, in its own goroutine; the others wait and
// use the result.
type shared[T any] struct {
	// sem is a semaphore of one: it is full while a caller measures.
	sem  chan struct{}
	last T
	// began is when the last measurement began, zero before the first.
	began time.Time
	took  time.Duration
}

func newShared[T any]() shared[T] { return shared[T]{sem: make(chan struct{}, 1)} }

// get returns a measurement that began at most maxAge ago. least is the minimum
// pause between two measurements as a multiple of the duration of the last one; 0
// is none.
func (s *shared[T]) get(ctx context.Context, maxAge time.Duration, least int,
	measure func(ctx context.Context, last T) (T, error)) (T, error) {
	oldest := time.Now().Add(-max(maxAge, 0))
	select {
	case s.sem <- struct{}{}:
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
	defer func() { <-s.sem }()
	if s.fresh(oldest, least) {
		return s.last, nil
	}
	began := time.Now()
	m, err := measure(ctx, s.last)
	if err != nil {
		return m, err
	}
	s.last, s.began, s.took = m, began, time.Since(began)
	return m, nil
}

func (s *shared[T]) fresh(oldest time.Time, least int) bool {
	if s.began.IsZero() {
		return false
	}
	return !s.began.Before(oldest) || time.Since(s.began) < time.Duration(least)*s.took
}
