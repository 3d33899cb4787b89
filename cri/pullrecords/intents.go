package pullrecords

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// intentFile is the file about a pull that has begun.
type intentFile struct {
	// Image is the name as it is pulled. It is empty for a file that could not be read.
	Image string `json:"image"`
	// Before is the ID of the image that had the name, empty if there was none.
	Before string `json:"before,omitempty"`
}

// intent is the state of the pulls of a name.
type intent struct {
	intentFile
	// pulls is how many pulls of the name are in progress.
	pulls int
	// doubtful reports that the runtime may have pulled without a response to this daemon,
	// overdue that such a pull must have ended.
	doubtful, overdue bool
	// settling runs until the intent is settled.
	settling *time.Timer
}

// settleDelay is how long after a pull without a response the runtime is asked for its image.
// The runtime cancels such a pull.
const settleDelay = time.Minute

// loadIntents reads the intents of an earlier daemon: all of them, however many pulls it did not see the end of. The
// image of one that is left out would count as preloaded.
func (r *Records) loadIntents() {
	r.intents = map[string]*intent{}
	keys, err := r.begun.Keys()
	if err != nil {
		r.log.Warn("Failed to read image pull intents", "err", err)
	}
	for _, key := range keys {
		in := &intent{doubtful: true, overdue: true}
		f, err := r.begun.File(key)
		if err == nil {
			in.intentFile, err = f.Load()
		}
		if err == nil && fileKey(canonical(in.Image)) != key {
			err = fmt.Errorf("it is about image %q", in.Image)
		}
		if err != nil {
			r.log.Warn("Failed to read image pull intent", "file", key, "err", err)
			in.intentFile = intentFile{}
		}
		r.intents[key], r.unsettled = in, true
	}
}

// Pull is a pull in progress. The methods of a nil *Pull do nothing.
type Pull struct {
	records *Records
	key     string
	in      *intent
}

// Begin records that an image is going to be pulled. The pull may run in spite of an
// error, which reports that a restart of the daemon would forget it. Exactly one method of
// the Pull must be called when it ends.
func (r *Records) Begin(ctx context.Context, image string) (*Pull, error) {
	if r == nil {
		return nil, nil
	}
	r.settleAll(ctx)
	before, _ := r.idOf(ctx, image) // without a response it counts as none, so that the pull counts
	key := fileKey(canonical(image))
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.intents[key]
	if in == nil || in.Image == "" {
		in = &intent{intentFile: intentFile{image, before}, doubtful: in != nil}
		r.intents[key] = in
	}
	in.pulls++
	p := &Pull{r, key, in}
	if err := save(r, r.begun, key, in.intentFile); err != nil {
		return p, fmt.Errorf("failed to record image pull intent: %w", err)
	}
	return p, nil
}

// Succeeded records a pull. ref is the runtime's answer, used what it was pulled with.
func (p *Pull) Succeeded(ctx context.Context, ref string, used Credential) {
	if p == nil {
		return
	}
	r := p.records
	id, ok := cutID(ref)
	if !ok {
		var err error
		if id, err = r.idOf(context.WithoutCancel(ctx), p.in.Image); err != nil || id == "" {
			p.Failed(true)
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Also if it proves nothing new: the image may have been removed and have come back.
	r.epoch++
	found, err := r.load(id)
	if err != nil || found == nil {
		found = newRecord(id)
	}
	found.grant(repository(p.in.Image), used)
	// The intent stays until the record is on the disk.
	p.end(!r.save(found))
}

// Failed records that a pull has failed. An uncertain one may have succeeded in the
// runtime.
func (p *Pull) Failed(uncertain bool) {
	if p == nil {
		return
	}
	r := p.records
	var id string
	if !uncertain {
		// The runtime may have failed after it had created the image.
		var err error
		id, err = r.idOf(context.Background(), p.in.Image)
		uncertain = err != nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.end(uncertain || id != "" && id != p.in.Before)
}

// end ends a pull. A doubtful one, and those at the same time, are settled later. The
// caller holds mu.
func (p *Pull) end(doubtful bool) {
	p.in.doubtful = p.in.doubtful || doubtful
	if p.in.pulls--; p.in.pulls > 0 {
		return
	}
	if p.in.doubtful {
		p.records.settleLater(p.key, p.in)
		return
	}
	p.records.dropIntent(p.key)
}

// dropIntent removes an intent; the caller holds mu.
func (r *Records) dropIntent(key string) {
	if in := r.intents[key]; in != nil && in.settling != nil {
		in.settling.Stop()
	}
	delete(r.intents, key)
	remove(r, r.begun, key)
}

// settleLater settles an intent once the runtime must have ended its last pull. The caller
// holds mu.
func (r *Records) settleLater(key string, in *intent) {
	if in.settling != nil {
		in.settling.Reset(settleDelay)
		return
	}
	in.settling = time.AfterFunc(settleDelay, func() { r.settle(context.Background(), key) })
}

// settleAll settles the intents of an earlier daemon, and those for which the runtime did
// not respond.
func (r *Records) settleAll(ctx context.Context) {
	r.mu.Lock()
	var keys []string
	if r.unsettled {
		for key, in := range r.intents {
			if in.overdue {
				keys = append(keys, key)
			}
		}
	}
	r.unsettled = false
	r.mu.Unlock()
	for _, key := range keys {
		r.settle(ctx, key)
	}
}

// settle ends an intent without a pull in progress: if its image has come, it was pulled
// with unknown credentials. Without a response of the runtime the intent stays.
func (r *Records) settle(ctx context.Context, key string) {
	r.mu.Lock()
	in := r.intents[key]
	idle := in != nil && in.pulls == 0 && in.Image != ""
	r.mu.Unlock()
	if !idle {
		return
	}
	id, err := r.idOf(ctx, in.Image)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.intents[key] != in || in.pulls > 0 {
		return
	}
	settled := err == nil
	if settled && id != "" && id != in.Before {
		// A record that cannot be read has the same meaning.
		if found, fault := r.load(id); fault == nil {
			settled = r.save(cmp.Or(found, newRecord(id)))
		}
	}
	if settled {
		r.dropIntent(key)
		return
	}
	in.overdue, r.unsettled = true, true
}

// idOf returns the ID of an image without the name of the hash, empty if it is not
// present.
func (r *Records) idOf(ctx context.Context, image string) (string, error) {
	found, err := r.images.ImageStatus(ctx, image)
	if err != nil || found == nil {
		return "", err
	}
	return bareID(found.GetId()), nil
}
