package supervisor

import "context"

// withStatusRefresh acts, and keeps the probes and the status of a pod with probes
// or hooks up to date until the act is over: a pull or a grace period may take
// minutes, in which readiness changes. a.observed is the newest observation
// afterwards. The act must not use the attempt.
func (a *attempt) withStatusRefresh(ctx context.Context, act func()) {
	if !a.probes.active(a.pod) && !hasHooks(a.pod) || a.job.Notified == nil {
		act()
		return
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		act()
	}()
	for {
		select {
		case <-over:
			return
		case <-a.job.Notified:
			// The worker is dirty and syncs again, also if this received its notification.
		}
		if err := a.observe(ctx); err != nil {
			<-over
			return
		}
		a.runtime.syncer.CancelEndedHooks(a.observed)
		a.probes.set(a.pod, a.observed, a.run.record)
		a.publish(statusOverrides{acting: true})
	}
}
