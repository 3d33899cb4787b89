package retry

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func TestDelay(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 2 * time.Second, 1: 2 * time.Second, 2: 4 * time.Second,
		3: 8 * time.Second, 4: 15 * time.Second, math.MaxInt: 15 * time.Second} {
		if got := Delay(failures, 2*time.Second, 15*time.Second); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
	if got := Delay(1, time.Minute, time.Second); got != time.Second {
		t.Errorf("with a limit below the first delay: %v", got)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !Sleep(t.Context(), time.Hour) || time.Since(begin) != time.Hour {
			t.Errorf("it ended after %v", time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if Sleep(ctx, time.Hour) || time.Since(begin) != time.Hour+time.Minute {
			t.Errorf("with a context that ends after a minute it ended after %v", time.Since(begin)-time.Hour)
		}
		if Sleep(ctx, time.Hour) {
			t.Error("with a context that has ended it waited")
		}
	})
}
