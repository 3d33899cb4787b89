package cri

import "time"

// The steps of a start, in their order.
const (
	StepSandbox = "sandbox"
	// StepImage is the wait for the image: a check that it is there, or its pull. Images are
	// pulled while earlier containers start, so that it can be shorter than the pull.
	StepImage  = "image"
	StepCreate = "create"
	StepStart  = "start"
)

// Step is a step of a start, and how long it took. A step occurs once for each container.
type Step struct {
	Name string
	Took time.Duration
}

// measure begins a step, and returns what ends it.
func (t *transaction) measure(step string) (end func()) {
	began := time.Now()
	return func() { t.result.Steps = append(t.result.Steps, Step{step, time.Since(began)}) }
}
