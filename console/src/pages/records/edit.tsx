import { useState } from 'react'
import { Conflict } from '../../ui/conflict.tsx'
import { useEdit } from '../../ui/edit.ts'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { ifMatch, type Loaded, readRow, useSend } from './data.ts'
import { RecordForm } from './form.tsx'
import { changedBody, type Draft, draftOf } from './form-values.ts'
import type { Resource, Row } from './model.ts'

interface EditProps {
  resource: Resource
  loaded: Loaded
  onDone: () => void
}

/**
 * The form for an existing row. Sends the changed fields with If-Match; after a 412, the user chooses between both
 * versions.
 */
export function EditRow({ resource, loaded, onDone }: EditProps) {
  const { name, noun, path } = resource
  const fields = resource.fields.filter(({ isReadOnly }) => !isReadOnly)
  const [errors, setErrors] = useState<Record<string, string>>({})
  const send = useSend()
  const cache = useCache(name)
  const { id } = loaded.row
  const edit = useEdit({
    loaded,
    draftOf: (row: Row): Draft => draftOf(fields, row),
    textsOf: (draft) => Object.fromEntries(fields.map(({ name: field, label }) => [label, draft[field] ?? ''])),
    patchOf: (before, after) => changedBody(fields, before, after).body,
    send: async (body, etag) => {
      const answer = await send('PATCH', `${path}/${encodeURIComponent(id)}`, { body, headers: ifMatch(etag) })
      return { row: answer.body as Row, etag: answer.headers.get('etag') }
    },
    read: () => readRow(send, resource, id),
    onDone: (now, isSaved) => {
      cache.replace(now)
      if (isSaved) toast(`Saved ${noun} #${id}`)
      onDone()
    },
  })
  const submit = () => {
    const { errors: wrong } = changedBody(fields, edit.before, edit.draft)
    setErrors(wrong)
    if (Object.keys(wrong).length === 0) edit.save()
  }
  return (
    <>
      <RecordForm
        {...{ fields, draft: edit.draft, errors, isNew: false, action: 'Save' }}
        error={edit.error}
        isRunning={edit.isRunning}
        onChange={edit.setDraft}
        onSubmit={submit}
        onCancel={onDone}
      />
      {edit.conflict && <Conflict {...edit.conflict} />}
    </>
  )
}
