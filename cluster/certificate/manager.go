package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// ErrRefused is wrapped by what a Signer returns for a request that will never be
// signed.
var ErrRefused = errors.New("the CertificateSigningRequest was denied")

// Signer gets requests signed.
type Signer interface {
	// Sign returns the certificate with its chain in PEM. It waits until there is
	// one, and returns an error only if there will be none for this request, or
	// the context ends.
	Sign(context.Context, Request) ([]byte, error)
}

// Config is what a Manager is made of.
type Config struct {
	Store  Store
	Signer Signer
	// Current is a certificate that there is already; nil for none.
	Current *tls.Certificate
	// Subject is what the certificate should say as of now, false if that is not
	// known yet.
	Subject func() (Subject, bool)
	// Renewed is called when there is another certificate.
	OnRenewed func()
	// Refused is told why there will be none for now.
	OnRefused func(error)
	Log       *slog.Logger
}

// The spacing of requests that are refused.
const (
	minPause = time.Minute
	maxPause = time.Hour
)

// Manager has a certificate. It does nothing before Run.
type Manager struct {
	cfg     Config
	changed chan struct{}

	mu      sync.Mutex
	current *tls.Certificate
}

// New makes a Manager.
func New(cfg Config) *Manager {
	return &Manager{cfg: cfg, current: cfg.Current, changed: make(chan struct{}, 1)}
}

// Certificate is the certificate, nil if there is none yet.
func (k *Manager) Certificate() *tls.Certificate {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current
}

// Look makes it compare what the certificate says with what it should.
func (k *Manager) Check() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Run keeps a certificate until the context ends.
func (k *Manager) Run(ctx context.Context) {
	failures, chance := 0, rand.Float64()
	for {
		want, known := k.cfg.Subject()
		wait := look
		if known {
			wait = min(wait, due(k.Certificate(), want, chance, time.Now()))
		}
		if wait > 0 {
			select {
			case <-time.After(wait):
			case <-k.changed:
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
			// One that does not last is not replaced without end.
			if err = k.check(want); err == nil {
				failures = 0
			}
		}
		if err != nil && !errors.Is(err, errOther) {
			failures++
			k.cfg.OnRefused(err)
			if !sleep(ctx, pause(failures)) {
				return
			}
		}
	}
}

// check says what is wrong with a new certificate.
func (k *Manager) check(want Subject) error {
	if due(k.Certificate(), want, 0, time.Now()) == 0 {
		return errors.New("the signed certificate expires too soon, or differs from the request")
	}
	return nil
}

// errOther ends a request since something else should be asked for.
var errOther = errors.New("the wanted certificate changed")

// renew asks for a certificate and takes it.
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

// sign waits for the signature, as long as this is what is wanted.
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
		case <-k.changed:
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

// pause is how long to wait after so many refusals in a row.
func pause(failures int) time.Duration {
	d := minPause
	for range failures - 1 {
		if d *= 2; d >= maxPause {
			return maxPause
		}
	}
	return d
}

// sleep reports whether the time passed before the context ended.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
