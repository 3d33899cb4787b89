package stats

import (
	"context"
	"time"
)

// shared is one measurement that many may ask for. Who asks says how old it may
// be. One at a time measures, in its own time and goroutine; the others wait
// and take what came of it.
type shared[T any] struct {
	sem  chan struct{}
	last T
	// began is when the last measurement began, zero before the first.
	began time.Time
	took  time.Duration
}

func newShared[T any]() shared[T] { return shared[T]{sem: make(chan struct{}, 1)} }

// get is a measurement that began no longer than maxAge before now. least
// bounds how little time there is between two measurements, as a multiple of
// what the last one took; 0 does not.
func (s *shared[T]) get(ctx context.Context, maxAge time.Duration, least int, measure func(ctx context.Context, last T) (T, error)) (T, error) {
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
