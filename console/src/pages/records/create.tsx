import { useMutation } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useAttempt } from '../../api/attempt.ts'
import { useSession } from '../../session/session.ts'
import { Page } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { useCache } from './cache.ts'
import { allows, useSend } from './data.ts'
import { RecordForm } from './form.tsx'
import { draftOf, newBody } from './form-values.ts'
import type { Resource, Row } from './model.ts'
import { WithResource } from './resources.tsx'

/** A form for a new row. */
export function NewRecord() {
  const { resource: name } = useParams({ from: '/records/$resource/new' })
  return <WithResource name={name}>{(resource) => <NewRow key={name} resource={resource} />}</WithResource>
}

function NewRow({ resource }: { resource: Resource }) {
  const { name, path, noun, title, can } = resource
  const session = useSession()
  const send = useSend()
  const navigate = useNavigate()
  const cache = useCache(name)
  const fields = resource.fields.filter(({ isReadOnly }) => !isReadOnly)
  const [draft, setDraft] = useState(() => draftOf(fields, null))
  const [errors, setErrors] = useState<Record<string, string>>({})
  const attempt = useAttempt()
  const create = useMutation({
    mutationFn: async (body: object) => {
      const answer = await attempt(body, (key) => send('POST', path, { body, headers: { 'idempotency-key': key } }))
      return answer.body as Row
    },
    onSuccess: async (row) => {
      toast(`Created ${noun} #${row.id}`)
      await cache.reset()
      await navigate({ to: '/records/$resource/row/$id', params: { resource: name, id: String(row.id) } })
    },
  })
  const submit = () => {
    const made = newBody(fields, draft)
    setErrors(made.errors)
    if (Object.keys(made.errors).length === 0) create.mutate(made.body)
  }
  const cancel = () => void navigate({ to: '/records/$resource', params: { resource: name } })
  const back = (
    <Link to="/records/$resource" params={{ resource: name }}>
      {title}
    </Link>
  )
  if (!allows(session, can.create))
    return (
      <Page title={`New ${noun}`} about={back}>
        <Empty title={`You may not create ${title.toLowerCase()}`} />
      </Page>
    )
  return (
    <Page title={`New ${noun}`} about={back}>
      <div className="card">
        <RecordForm
          {...{ fields, draft, errors, isNew: true, action: `Create ${noun}` }}
          error={create.error}
          isRunning={create.isPending}
          onChange={setDraft}
          onSubmit={submit}
          onCancel={cancel}
        />
      </div>
    </Page>
  )
}
