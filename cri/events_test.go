package cri_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := critest.New(t)
		c := f.Client(t)
		if err := c.Events(t.Context(), nil); !errors.Is(err, cri.ErrUnimplemented) {
			t.Errorf("a runtime without events: %v", err)
		}
		f.SetEvents(true)
		var mu sync.Mutex
		var got []cri.Event
		follow := func(ctx context.Context) <-chan error {
			ended := make(chan error, 1)
			go func() {
				ended <- c.Events(ctx, func(e cri.Event) {
					mu.Lock()
					defer mu.Unlock()
					got = append(got, e)
				})
			}()
			synctest.Wait()
			return ended
		}
		ended := follow(t.Context())
		sandbox, container := startPod(t, c, "uid-1", "web")
		f.Exit("web", 0)
		if err := c.RemovePodSandbox(t.Context(), sandbox); err != nil {
			t.Fatal(err)
		}
		f.Put(critest.Pod{UID: "uid-2", Name: "other", Namespace: "default", Instance: "another"})
		synctest.Wait()
		foreign := f.Sandboxes()[0].ID
		want := []cri.Event{
			{Kind: cri.EventCreated, UID: "uid-1", ContainerID: sandbox},
			{Kind: cri.EventStarted, UID: "uid-1", ContainerID: sandbox},
			{Kind: cri.EventCreated, UID: "uid-1", ContainerID: container},
			{Kind: cri.EventStarted, UID: "uid-1", ContainerID: container},
			{Kind: cri.EventStopped, UID: "uid-1", ContainerID: container},
			{Kind: cri.EventStopped, UID: "uid-1", ContainerID: sandbox},
			{Kind: cri.EventDeleted, UID: "uid-1", ContainerID: container},
			{Kind: cri.EventDeleted, ContainerID: sandbox},
			{Kind: cri.EventStarted, UID: "uid-2", ContainerID: foreign, Foreign: true},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}

		f.BreakEvents()
		if err := <-ended; !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("a stream that broke: %v", err)
		}
		ended = follow(t.Context())
		f.Disconnect()
		if err := <-ended; !errors.Is(err, cri.ErrUnavailable) {
			t.Errorf("a connection that broke: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended = follow(ctx)
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled caller: %v", err)
		}
		synctest.Wait()
		if n := f.Streams(); n != 0 {
			t.Errorf("%d streams stay open", n)
		}
	})
}
