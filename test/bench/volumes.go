package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// volumes measures the starts of pods with volumes; their floors are those of pods without, of the same
// daemon.
func (b *bench) volumes() error {
	if err := b.claims(); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	if err := b.csiVolumes(); err != nil {
		return fmt.Errorf("CSI: %w", err)
	}
	return nil
}

// claims measures the start of many pods with a claim each, which gets a directory.
func (b *bench) claims() error {
	var with, without []float64
	for round := range b.opts.rounds {
		err := b.inTurn(round, b.opts.largest,
			variant{func(name string) string { return manifest(name, "one") },
				func(_ time.Time, took time.Duration) { without = append(without, took.Seconds()) }},
			variant{func(name string) string { return withClaim(name, "") },
				func(_ time.Time, took time.Duration) { with = append(with, took.Seconds()) }},
		)
		if err != nil {
			return err
		}
	}
	b.report.add(b.row(fmt.Sprintf("start of %d pods with a claim each (floor: without)", b.opts.largest), "s"), with,
		without, timesFloor(1.3))
	return nil
}

// variant is a kind of pods of which the start is measured.
type variant struct {
	manifest func(name string) string
	// result takes when the first manifest was written, and the time of the starts.
	result func(begin time.Time, took time.Duration)
}

// inTurn starts and removes a number of pods of each variant. The order changes with the round, so that
// no variant always comes after the remains of the other.
func (b *bench) inTurn(round, count int, variants ...variant) error {
	if round%2 == 1 {
		slices.Reverse(variants)
	}
	for _, v := range variants {
		names := b.names(count)
		begin := time.Now()
		took, err := b.startOf(names, v.manifest)
		if err != nil {
			return err
		}
		v.result(begin, took)
		if err := b.podsteadRemove(names); err != nil {
			return err
		}
	}
	return nil
}

// withClaim is a pod with a claim of its name, with further fields of the claim's spec.
func withClaim(name, more string) string {
	pod := strings.Replace(manifest(name, "one"), "env:", "volumeMounts: [{name: data, mountPath: /data}], env:", 1)
	return fmt.Sprintf(`%s  volumes: [{name: data, persistentVolumeClaim: {claimName: %[2]s}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %[2]s}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}, %[3]s}
`, pod, name, more)
}
