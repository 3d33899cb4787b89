package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/cri/critest"
	"github.com/podstead/podstead/test/testbed"
)

const (
	// logged is the size of the log of one measurement, in bytes.
	logged = 500_000_000
	// printed is one line of it.
	printed = 180
)

// measureLogs measures how fast a log is followed while it is written as fast as possible. The
// writer replaces the runtime, which is slower than any reader.
func measureLogs(ctx context.Context, r *report, opts options) error {
	progress("follow of a log")
	fake := critest.Start()
	defer fake.Close()
	fake.WriteLogs()
	socket := filepath.Join(testbed.Dir(), "fake-logs.sock")
	if err := fake.ServeUnix(socket); err != nil {
		return err
	}
	node, err := testbed.NewNode("logs", "unix://"+socket)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		return err
	}
	defer node.Kill()
	if err := node.Write("p.yaml", manifest("p", "one")); err != nil {
		return err
	}
	if err := awaitAll(ctx, node, 1); err != nil {
		return err
	}
	pods, err := node.Pods(ctx)
	if err != nil {
		return err
	}
	pod := pods["p"]
	name := pod.Spec.Containers[0].Name
	file := filepath.Join(cri.LogDirectory(node.PodLogs, pod.Namespace, pod.Name, pod.UID), name, "0.log")
	path := fmt.Sprintf("/containerLogs/%s/%s/%s?follow=true", pod.Namespace, pod.Name, name)
	var times []float64
	for range opts.rounds {
		if err := os.Truncate(file, 0); err != nil {
			return err
		}
		began := time.Now()
		if err := follow(ctx, node.Socket(), path, file); err != nil {
			return err
		}
		times = append(times, time.Since(began).Seconds())
	}
	r.add(row{Runtime: "fake", Name: fmt.Sprintf("following %d MB of log", logged/1_000_000), Unit: "s"}, times, nil,
		atMost(logged/100e6, "≤ 5 s: 100 MB/s"))
	return nil
}

// follow writes the log and reads it from the daemon until the end.
func follow(ctx context.Context, socket, path, file string) error {
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	defer client.CloseIdleConnections()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podstead"+path, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(q)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	written := make(chan error, 1)
	go func() { written <- writeLog(file) }()
	n, err := io.CopyN(io.Discard, response.Body, logged)
	if err != nil {
		return fmt.Errorf("the log ends after %d bytes: %w", n, err)
	}
	return <-written
}

// writeLog appends lines to a log in the runtime's format, with as few writes as possible.
func writeLog(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	line := fmt.Appendf(nil, "2026-01-31T12:00:00.000000000Z stdout F %s\n", bytes.Repeat([]byte("x"), printed-1))
	for n := 0; n < logged; n += printed {
		if _, err := w.Write(line); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(w.Flush(), f.Close())
}
