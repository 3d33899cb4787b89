package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/podstead/podstead/internal/retry"
	"github.com/podstead/podstead/internal/wakeup"
)

// ErrRefused is wrapped by what a Signer returns for a request that will never be
// signed.
var ErrRefused = errors.New("the CertificateSigningRequest was denied")

// Signer gets requests signed.
type Signer interface {
	// Sign returns the certificate with its chain in PEM. It waits until there is
	// one, and returns an error only if there will be none for this request, or the
	// context ends.
	Sign(context.Context, Request) ([]byte, error)
}

// Config configures a Manager.
type Config struct {
	Store  Store
	Signer Signer
	// Current is an existing certificate; nil for none.
	Current *tls.Certificate
	// Subject returns what the certificate should contain now, false if that is not
	// known yet.
	Subject func() (Subject, bool)
	// OnRenewed is called when there is a new certificate.
	OnRenewed func()
	// OnRefused is called with the reason when there will be none for now.
	OnRefused func(error)
	Log       *slog.Logger
}

// The delays between denied requests.
const (
	minPause = time.Minute
	maxPause = time.Hour
)

// Manager manages a certificate. It does nothing before Run.
type Manager struct {
	cfg     Config
	changed wakeup.Signal

	mu      sync.Mutex
	current *tls.Certificate
}

// New makes a Manager.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, current: cfg.Current, changed: wakeup.NewSignal()}
}

// Certificate returns the certificate, nil if there is none yet.
func (k *Manager) Certificate() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Check makes the manager compare the certificate with its subject.
func (k *Manager) Check() { k.changed.Notify() }

// Run manages the certificate until the context ends.
func (k *Manager) Run(ctx context.Context) {
	failures, chance := 0, rand.Float64()
	for {
		want, known := k.cfg.Subject()
		wait := checkInterval
		if known {
			wait = min(wait, due(k.Certificate(), want, chance, time.Now()))
		}
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-k.changed.C():
			case <-ctx.Done():
				return
			}
			continue
		}
		chance = rand.Float64()
		err := k.renew(ctx, want)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOther):
		case err == nil:
			k.cfg.OnRenewed()
			// A certificate that expires too soon is not replaced in a loop.
			if err = k.check(want); err == nil {
				failures = 0
			}
		}
		if err != nil && !errors.Is(err, errOther) {
			failures++
			k.cfg.OnRefused(err)
			if !retry.Sleep(ctx, retry.Delay(failures, minPause, maxPause)) {
				return
			}
		}
	}
}

// check returns what is wrong with a new certificate.
func (k *Manager) check(want Subject) error {
	if due(k.Certificate(), want, 0, time.Now()) == 0 {
		return errors.New("the signed certificate expires too soon, or differs from the request")
	}
	return nil
}

// errOther ends a request because the subject changed.
var errOther = errors.New("the wanted certificate changed")

// renew requests a certificate and stores it.
func (k *Manager) renew(ctx context.Context, want Subject) error {
	key, err := k.cfg.Store.key()
	if err != nil {
		return err
	}
	r, err := request(want.sorted(), key)
	if err != nil {
		return err
	}
	signed, err := k.sign(ctx, r, want)
	if errors.Is(err, ErrRefused) || errors.Is(err, errOther) {
		// The next request has another key, and so another name.
		return errors.Join(err, k.cfg.Store.forget())
	}
	if err != nil {
		return err
	}
	cert, err := k.cfg.Store.save(signed, key, time.Now())
	if err != nil {
		return errors.Join(err, k.cfg.Store.forget())
	}
	k.mu.Lock()
	k.current = cert
	k.mu.Unlock()
	k.cfg.Log.Info("Certificate signed", "file", k.cfg.Store.Current(), "until", cert.Leaf.NotAfter)
	return nil
}

// sign waits for the signature while the subject stays the same.
func (k *Manager) sign(ctx context.Context, r Request, want Subject) (signed []byte, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		signed, err = k.cfg.Signer.Sign(ctx, r)
	}()
	for {
		select {
		case <-k.changed.C():
			if now, known := k.cfg.Subject(); known && !now.sorted().equal(want.sorted()) {
				cancel(errOther)
			}
		case <-done:
			if err != nil && context.Cause(ctx) != nil {
				err = context.Cause(ctx)
			}
			return signed, err
		}
	}
}
