import { useMutation } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import { Paged } from '../../api/pages.tsx'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { countText, Time } from '../../ui/format.tsx'
import { Page } from '../../ui/page.tsx'
import { Empty, ErrorNotice } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { RestoreMany } from './bulk.tsx'
import { useCache } from './cache.ts'
import { allows, deletedKey, pageSize, useSend } from './data.ts'
import { toggled } from './grid-row.tsx'
import { type Resource, type Row, titleOf } from './model.ts'
import { restoreRow } from './remove.ts'
import { WithResource } from './resources.tsx'
import { Value } from './value.tsx'

interface DeletedRow {
  id: string | number
  deletedAt: string
  deletedBy: string
  expiresAt: string
  resource: Row
}

/** The deleted rows of one resource, which can be restored until they expire. */
export function DeletedRecords() {
  const { resource: name } = useParams({ from: '/records/$resource/deleted' })
  return <WithResource name={name}>{(resource) => <DeletedPage key={name} resource={resource} />}</WithResource>
}

function DeletedPage({ resource }: { resource: Resource }) {
  const { name, title, can } = resource
  const session = useSession()
  const about = (
    <Link to="/records/$resource" params={{ resource: name }}>
      {title}
    </Link>
  )
  return (
    <Page title={`Deleted ${title.toLowerCase()}`} about={about}>
      {allows(session, can.listDeleted) ? (
        <DeletedRows resource={resource} />
      ) : (
        <Empty title={can.listDeleted ? 'You may not see deleted rows' : 'A deletion of these rows is final'} />
      )}
    </Page>
  )
}

function DeletedRows({ resource }: { resource: Resource }) {
  const { name } = resource
  const send = useSend()
  const read = async (cursor: string | undefined) => {
    const query = new URLSearchParams({ limit: String(pageSize), ...(cursor && { cursor }) })
    const { body, headers } = await send('GET', `/api/deleted/${name}?${query}`)
    return { data: body as DeletedRow[], headers }
  }
  const [selected, setSelected] = useState<ReadonlySet<string | number>>(new Set())
  const [isRestoring, setRestoring] = useState(false)
  const clear = () => setSelected(new Set())
  return (
    <>
      {selected.size > 0 && (
        <section className="notice row" aria-label="Selected rows">
          <strong>{countText(selected.size)} selected</strong>
          <Button isCompact onPress={() => setRestoring(true)}>
            Restore
          </Button>
          <Button isCompact look="plain" onPress={clear}>
            Clear selection
          </Button>
        </section>
      )}
      {isRestoring && (
        <RestoreMany
          {...{
            resource,
            ids: [...selected],
            onClose: () => setRestoring(false),
            onDone: (ids) => setSelected(new Set(ids)),
          }}
        />
      )}
      <Paged queryKey={deletedKey(name)} read={read}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="There are no deleted rows" />
          ) : (
            <ul className="record-deleted">
              {rows.map((row) => (
                <DeletedItem
                  key={row.id}
                  {...{ row, resource, isSelected: selected.has(row.id) }}
                  onSelect={() => setSelected(toggled(selected, row.id))}
                />
              ))}
            </ul>
          )
        }
      </Paged>
    </>
  )
}

interface DeletedItemProps {
  row: DeletedRow
  resource: Resource
  isSelected: boolean
  onSelect: () => void
}

function DeletedItem({ row, resource, isSelected, onSelect }: DeletedItemProps) {
  const { name, noun, can } = resource
  const session = useSession()
  const send = useSend()
  const cache = useCache(name)
  const [isErasing, setErasing] = useState(false)
  const restore = useMutation({
    mutationFn: () => restoreRow(send, resource, row.id),
    onSuccess: async () => {
      toast(`Restored ${noun} #${row.id}`)
      await cache.reset()
    },
  })
  const title = titleOf(row.resource, resource)
  return (
    <li className="card stack tight">
      <div className="row between">
        <div className="row">
          <input type="checkbox" aria-label={`Select ${title}`} checked={isSelected} onChange={onSelect} />
          <h2>{title}</h2>
          <span className="quiet small">#{row.id}</span>
        </div>
        <div className="row">
          {allows(session, can.restore) && (
            <Button isCompact isDisabled={restore.isPending} onPress={() => restore.mutate()}>
              Restore
            </Button>
          )}
          {allows(session, can.erase) && (
            <Button isCompact look="danger" onPress={() => setErasing(true)}>
              Delete for good
            </Button>
          )}
        </div>
      </div>
      <Summary row={row} resource={resource} />
      <ErrorNotice error={restore.error} />
      <Confirm
        title={`Delete ${title} for good?`}
        action="Delete for good"
        isDangerous
        isOpen={isErasing}
        onClose={() => setErasing(false)}
        onConfirm={async () => {
          await send('DELETE', `/api/deleted/${name}/${encodeURIComponent(row.id)}`)
          await cache.reset()
        }}
      >
        <p>Nobody can restore it afterwards.</p>
      </Confirm>
    </li>
  )
}

/** Who deleted a row and when, and its fields. */
function Summary({ row, resource: { fields } }: Pick<DeletedItemProps, 'row' | 'resource'>) {
  const shown = fields.filter((field) => field.isListed && !['id', 'createdAt', 'updatedAt'].includes(field.name))
  return (
    <>
      <p className="quiet small">
        Deleted <Time at={row.deletedAt} isRelative /> by {row.deletedBy}, kept until <Time at={row.expiresAt} />
      </p>
      <p className="record-summary">
        {shown.map((field) => (
          <span key={field.name}>
            <span className="quiet">{field.label}</span> <Value field={field} row={row.resource} />
          </span>
        ))}
      </p>
    </>
  )
}
