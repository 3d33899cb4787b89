package probe

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestCounts(t *testing.T) {
	withTestbed(t, func(t *testing.T, b *proberHarness) {
		b.does("live", func(context.Context) (ExecResult, error) {
			time.Sleep(200 * time.Millisecond)
			return ExecResult{}, nil
		})
		b.UpdatePod(podOf("u", now("first", nil, every("live", 10, 3))))
		b.after(25 * time.Second) // at 0, 10 and 20 s
		b.says("live", 1)
		b.after(10 * time.Second) // at 30 s
		b.does("live", func(context.Context) (ExecResult, error) { return ExecResult{}, errors.New("no exec") })
		b.after(10 * time.Second) // at 40 s
		// Another instance of the container continues the counts.
		b.says("live", 0)
		b.UpdatePod(podOf("u", now("second", nil, every("live", 10, 3))))
		b.after(time.Second)
		all := b.Counts()
		if len(all) != 1 {
			t.Fatalf("%+v: want one entry for the container", all)
		}
		c := all[0]
		if c.UID != "u" || c.Pod != "p" || c.Container != "c" || c.Kind != Liveness || c.Succeeded != 4 || c.Failed != 1 ||
			c.Unknown != 1 {
			t.Errorf("%+v", c)
		}
		// Two took no time; three more took 0.2 s.
		if c.Took != 600*time.Millisecond || c.Within[0] != 2 || c.Within[4] != 2 || c.Within[5] != 5 || c.Within[10] != 5 {
			t.Errorf("took %v, within %v", c.Took, c.Within)
		}
		b.RemovePod("u")
		if all := b.Counts(); len(all) != 0 {
			t.Errorf("%+v belongs to a removed pod", all)
		}
	})
}
