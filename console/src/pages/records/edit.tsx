import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { Conflict } from './conflict.tsx'
import { ifMatch, isOutdated, type Loaded, readRow, useSend } from './data.ts'
import { RecordForm } from './form.tsx'
import { changedBody, type Draft, draftOf } from './form-values.ts'
import type { Resource, Row } from './model.ts'

interface EditProps {
  resource: Resource
  loaded: Loaded
  onDone: () => void
}

/** The form of an existing row. Sends the changed fields with If-Match; a 412 leads to a choice between both versions. */
export function EditRow({ resource, loaded, onDone }: EditProps) {
  const { name, noun, path } = resource
  const fields = resource.fields.filter(({ isReadOnly }) => !isReadOnly)
  const [base, setBase] = useState(loaded)
  const before = draftOf(fields, base.row)
  const [draft, setDraft] = useState(before)
  const [errors, setErrors] = useState<Record<string, string>>({})
  const [theirs, setTheirs] = useState<Loaded | null>(null)
  const send = useSend()
  const cache = useCache(name)
  const saved = (loaded: Loaded) => {
    cache.replace(loaded)
    onDone()
  }
  const save = useMutation({
    mutationFn: async ({ body, etag }: { body: object; etag: string | null }): Promise<Outcome> => {
      const at = `${path}/${encodeURIComponent(base.row.id)}`
      try {
        const answer = await send('PATCH', at, { body, headers: ifMatch(etag) })
        return { saved: { row: answer.body as Row, etag: answer.headers.get('etag') } }
      } catch (error) {
        if (!isOutdated(error)) throw error
        return { theirs: await readRow(send, resource, base.row.id) }
      }
    },
    onSuccess: (outcome) => {
      if ('theirs' in outcome) return setTheirs(outcome.theirs)
      saved(outcome.saved)
      toast(`Saved ${noun} #${outcome.saved.row.id}`)
    },
  })
  const submit = (from: Draft = before, etag = base.etag) => {
    const { body, errors: wrong } = changedBody(fields, from, draft)
    setErrors(wrong)
    if (Object.keys(wrong).length > 0) return
    if (Object.keys(body).length === 0) onDone()
    else save.mutate({ body, etag })
  }
  /** Continues on top of the newer row: the fields that the person did not change get its values. */
  const rebase = (newer: Loaded) => {
    const newest = draftOf(fields, newer.row)
    const own = Object.entries(draft).filter(([field, text]) => text !== before[field])
    setBase(newer)
    setDraft({ ...newest, ...Object.fromEntries(own) })
    setTheirs(null)
    save.reset()
  }
  return (
    <>
      <RecordForm
        {...{ fields, draft, errors, isNew: false, action: 'Save' }}
        error={save.error}
        isRunning={save.isPending}
        onChange={setDraft}
        onSubmit={() => submit()}
        onCancel={onDone}
      />
      {theirs && (
        <Conflict
          {...{ fields, before, mine: draft, theirs: draftOf(fields, theirs.row) }}
          onTakeTheirs={() => saved(theirs)}
          onEdit={() => rebase(theirs)}
          onOverwrite={() => {
            rebase(theirs)
            submit(before, theirs.etag)
          }}
          onClose={() => setTheirs(null)}
        />
      )}
    </>
  )
}

/** The saved row, or the row as someone else has changed it meanwhile. */
type Outcome = { saved: Loaded } | { theirs: Loaded }
