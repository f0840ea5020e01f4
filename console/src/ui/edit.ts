import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { isOutdated, type Tagged } from '../api/client.ts'
import type { ConflictProps, Texts } from './conflict.tsx'

interface Editing<Row, Tag, Draft> {
  /** The row as it was when the form was opened. Refetching the row does not change the form. */
  loaded: Tagged<Row, Tag>
  draftOf: (row: Row) => Draft
  /** Returns the draft's text by field label, for comparison. */
  textsOf: (draft: Draft) => Texts
  /** Returns the merge patch that turns one draft into another. */
  patchOf: (before: Draft, after: Draft) => object
  /** Sends a patch with If-Match. */
  send: (patch: object, etag: Tag) => Promise<Tagged<Row, Tag>>
  read: () => Promise<Tagged<Row, Tag>>
  /** Called with the current row after a save, if there was nothing to save, or if the user discarded their changes. */
  onDone: (now: Tagged<Row, Tag>, isSaved: boolean) => void
}

/** The saved row or, if someone else has changed the row in the meantime, that person's version. */
type Outcome<Read> = { saved: Read } | { theirs: Read }

/**
 * Manages the state of a form that changes a row. Sends only the changed fields, with the entity tag of the row that
 * filled the form. If someone else has changed a field of the form in the meantime, `conflict` contains the properties
 * for `<Conflict>`; otherwise it is null.
 */
export function useEdit<Row, Tag, Draft extends object>(editing: Editing<Row, Tag, Draft>) {
  const { draftOf, textsOf, patchOf, send, read, onDone } = editing
  const [base, setBase] = useState(editing.loaded)
  const before = draftOf(base.row)
  const [draft, setDraft] = useState(before)
  const [theirs, setTheirs] = useState<Tagged<Row, Tag> | null>(null)
  const start = (from: Tagged<Row, Tag>, text = draftOf(from.row)) => {
    setBase(from)
    setDraft(text)
    setTheirs(null)
  }
  const finish = (now: Tagged<Row, Tag>, isSaved: boolean) => {
    start(now)
    onDone(now, isSaved)
  }
  const saving = useMutation({
    mutationFn: async ({ patch, etag }: { patch: object; etag: Tag }): Promise<Outcome<Tagged<Row, Tag>>> => {
      try {
        return { saved: await send(patch, etag) }
      } catch (error) {
        if (!isOutdated(error)) throw error
        const now = await read()
        return isSame(draftOf(now.row), before) ? { saved: await send(patch, now.etag) } : { theirs: now }
      }
    },
    onSuccess: (outcome) => ('theirs' in outcome ? setTheirs(outcome.theirs) : finish(outcome.saved, true)),
  })
  const save = (etag = base.etag) => {
    const patch = patchOf(before, draft)
    if (Object.keys(patch).length === 0) finish(base, false)
    else saving.mutate({ patch, etag })
  }
  const conflict: ConflictProps | null = theirs && {
    ...{ before: textsOf(before), mine: textsOf(draft), theirs: textsOf(draftOf(theirs.row)) },
    onTakeTheirs: () => finish(theirs, false),
    onEdit: () => start(theirs, { ...draftOf(theirs.row), ...changes(before, draft) }),
    onOverwrite: () => {
      start(theirs, { ...draftOf(theirs.row), ...changes(before, draft) })
      save(theirs.etag)
    },
    onClose: () => setTheirs(null),
  }
  return { before, draft, setDraft, save: () => save(), error: saving.error, isRunning: saving.isPending, conflict }
}

const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)

/** Returns the members of `after` that differ from those of `before`. */
export function changes<Body extends object>(before: Body, after: Body): Partial<Body> {
  const old = new Map<string, unknown>(Object.entries(before))
  const changed = Object.entries(after).filter(([member, value]) => !isSame(value, old.get(member)))
  return Object.fromEntries(changed) as Partial<Body>
}
