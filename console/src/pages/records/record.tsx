import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { Facts, Page, Section } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { allows, type Loaded as LoadedRow, useRow } from './data.ts'
import { EditRow } from './edit.tsx'
import { RowFile } from './file.tsx'
import { History } from './history.tsx'
import { type Resource, titleOf } from './model.ts'
import { Related } from './related.tsx'
import { useRemoval } from './remove.ts'
import { WithResource } from './resources.tsx'
import { Value } from './value.tsx'

/** One row: its fields, related rows, history and JSON. */
export function Record() {
  const { resource: name, id } = useParams({ from: '/records/$resource/row/$id' })
  return (
    <WithResource name={name}>
      {(resource) => <RecordPage key={`${name} ${id}`} resource={resource} id={id} />}
    </WithResource>
  )
}

function RecordPage({ resource, id }: { resource: Resource; id: string }) {
  const { name, title, can } = resource
  const session = useSession()
  const row = useRow(resource, id, allows(session, can.read))
  const about = (
    <Link to="/records/$resource" params={{ resource: name }}>
      {title}
    </Link>
  )
  if (!allows(session, can.read))
    return (
      <Page title={`${title} #${id}`} about={about}>
        <Empty title={`You may not read ${title.toLowerCase()}`} />
      </Page>
    )
  return (
    <Loaded query={row}>
      {(loaded) => (
        <Page
          title={titleOf(loaded.row, resource)}
          about={
            <>
              {about} › #{id}
            </>
          }
          actions={<Remove resource={resource} loaded={loaded} />}
        >
          <Content resource={resource} loaded={loaded} />
        </Page>
      )}
    </Loaded>
  )
}

function Remove({ resource, loaded: { row, etag } }: { resource: Resource; loaded: LoadedRow }) {
  const session = useSession()
  const navigate = useNavigate()
  const remove = useRemoval(resource)
  const [isRunning, setRunning] = useState(false)
  if (!allows(session, resource.can.remove)) return null
  const press = async () => {
    setRunning(true)
    const isRemoved = await remove(row.id, etag)
    setRunning(false)
    if (isRemoved) await navigate({ to: '/records/$resource', params: { resource: resource.name } })
  }
  return (
    <Button look="danger" isDisabled={isRunning} onPress={() => void press()}>
      Delete
    </Button>
  )
}

function Content({ resource, loaded }: { resource: Resource; loaded: LoadedRow }) {
  const session = useSession()
  const [isEditing, setEditing] = useState(false)
  const [isJson, setJson] = useState(false)
  const { row } = loaded
  const shown = resource.fields.filter(({ isWriteOnly }) => !isWriteOnly)
  const mayEdit = allows(session, resource.can.patch)
  const json = JSON.stringify(row, null, 2)
  return (
    <>
      <div className="card">
        {isEditing ? (
          <EditRow resource={resource} loaded={loaded} onDone={() => setEditing(false)} />
        ) : (
          <Section
            title="Fields"
            actions={
              <div className="row">
                <Button isCompact aria-pressed={isJson} onPress={() => setJson(!isJson)}>
                  JSON
                </Button>
                {isJson && <CopyButton text={json} />}
                {mayEdit && (
                  <Button isCompact look="primary" onPress={() => setEditing(true)}>
                    Edit
                  </Button>
                )}
              </div>
            }
          >
            {isJson ? (
              // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
              <pre tabIndex={0}>{json}</pre>
            ) : (
              <Facts
                of={shown.map((field) => [
                  field.label,
                  field.file === null ? (
                    <Value key={field.name} field={field} row={row} />
                  ) : (
                    <RowFile key={field.name} field={field} file={field.file} resource={resource} row={row} />
                  ),
                ])}
              />
            )}
          </Section>
        )}
      </div>
      <Related resource={resource} row={row} />
      <History resource={resource} loaded={loaded} />
    </>
  )
}
