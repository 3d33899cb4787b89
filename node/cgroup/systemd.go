package cgroup

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
)

// units are systemd's slices.
type units interface {
	// Start starts a transient slice. It returns errUnitExists for an active one.
	Start(ctx context.Context, unit string, properties []property) error
	Set(ctx context.Context, unit string, properties []property) error
	// Stop stops a unit; a missing unit is no error.
	Stop(ctx context.Context, unit string) error
}

// property is a unit property: bool, uint64 or string.
type property struct {
	name  string
	value any
}

var errUnitExists = errors.New("the unit exists")

// unitTimeout limits calls of systemd.
const unitTimeout = 30 * time.Second

// startUnit creates a slice with values, or sets them on an existing one. systemd
// must know the values: it writes them again whenever it is reloaded.
func (c *Cgroups) startUnit(ctx context.Context, unit string, l limits) error {
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	properties := l.properties(c.hierarchies.v2())
	err := c.systemd().Start(ctx, unit, append([]property{
		{"Description", "pods of podstead"},
		{"DefaultDependencies", false},
		{"CPUAccounting", true},
		{"MemoryAccounting", true},
		{"TasksAccounting", true},
		{"IOAccounting", true},
	}, properties...))
	if errors.Is(err, errUnitExists) && len(properties) > 0 {
		err = c.systemd().Set(ctx, unit, properties)
	}
	if err != nil && !errors.Is(err, errUnitExists) {
		return fmt.Errorf("failed to create slice %s: %w", unit, err)
	}
	return nil
}

func (c *Cgroups) stopUnit(ctx context.Context, unit string) error {
	if c.driver != Systemd && c.units == nil {
		return nil // created under another driver; the directories are removed anyway
	}
	ctx, cancel := context.WithTimeout(ctx, unitTimeout)
	defer cancel()
	if err := c.systemd().Stop(ctx, unit); err != nil {
		return fmt.Errorf("failed to stop slice %s: %w", unit, err)
	}
	return nil
}

func (c *Cgroups) systemd() units {
	if c.units == nil {
		c.units = &bus{}
	}
	return c.units
}

// properties returns the values as systemd takes them.
func (l limits) properties(v2 bool) []property {
	var list []property
	add := func(name string, value int64) {
		n := uint64(value)
		if value == noLimit {
			n = math.MaxUint64
		}
		list = append(list, property{name, n})
	}
	cpu, memory := "CPUShares", "MemoryLimit"
	if v2 {
		cpu, memory = "CPUWeight", "MemoryMax"
	}
	if l.shares != 0 {
		if v2 {
			add(cpu, weight(l.shares))
		} else {
			add(cpu, l.shares)
		}
	}
	switch {
	case l.quota == noLimit:
		add("CPUQuotaPerSecUSec", noLimit)
	case l.quota > 0:
		// systemd counts in hundredths of a CPU; a limit is rounded up.
		const second, step = int64(time.Second / time.Microsecond), int64(10 * time.Millisecond / time.Microsecond)
		perSecond := l.quota * second / l.period
		add("CPUQuotaPerSecUSec", (perSecond+step-1)/step*step)
	}
	if l.memory != 0 {
		add(memory, l.memory)
	}
	if l.memoryMin != 0 && v2 {
		add("MemoryMin", max(l.memoryMin, 0))
	}
	if l.memoryLow != 0 && v2 {
		add("MemoryLow", max(l.memoryLow, 0))
	}
	if l.pids != 0 {
		add("TasksMax", l.pids)
	}
	return list
}

// bus calls systemd over D-Bus. It connects on first use, and again after the
// connection broke.
type bus struct{ conn *systemd.Conn }

func (b *bus) connect(ctx context.Context) (*systemd.Conn, error) {
	if b.conn != nil && b.conn.Connected() {
		return b.conn, nil
	}
	if b.conn != nil {
		b.conn.Close()
		b.conn = nil
	}
	// The connection outlives the call that opened it.
	conn, err := systemd.NewWithContext(context.WithoutCancel(ctx))
	if err != nil {
		return nil, &unavailableError{fmt.Errorf("failed to connect to systemd over D-Bus: %w", err)}
	}
	b.conn = conn
	return conn, nil
}

func (b *bus) Start(ctx context.Context, unit string, properties []property) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, unit, "replace", toSystemd(properties), done); err != nil {
		if isBusError(err, "org.freedesktop.systemd1.UnitExists") {
			return errUnitExists
		}
		return err
	}
	return awaitJob(ctx, done)
}

func (b *bus) Set(ctx context.Context, unit string, properties []property) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	return conn.SetUnitPropertiesContext(ctx, unit, true, toSystemd(properties)...)
}

func (b *bus) Stop(ctx context.Context, unit string) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	if _, err := conn.StopUnitContext(ctx, unit, "replace", done); err != nil {
		if isBusError(err, "org.freedesktop.systemd1.NoSuchUnit") {
			return nil
		}
		return err
	}
	if err := awaitJob(ctx, done); err != nil {
		return err
	}
	// systemd would remember a failed unit forever.
	_ = conn.ResetFailedUnitContext(ctx, unit)
	return nil
}

func awaitJob(ctx context.Context, done <-chan string) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("systemd job result: %s", result)
		}
		return nil
	}
}

func toSystemd(properties []property) []systemd.Property {
	list := make([]systemd.Property, 0, len(properties))
	for _, p := range properties {
		list = append(list, systemd.Property{Name: p.name, Value: godbus.MakeVariant(p.value)})
	}
	return list
}

func isBusError(err error, name string) bool {
	var e godbus.Error
	return errors.As(err, &e) && e.Name == name
}
