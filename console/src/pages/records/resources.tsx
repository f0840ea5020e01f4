import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { useSession } from '../../session/session.ts'
import { Page } from '../../ui/page.tsx'
import { Empty, Loaded } from '../../ui/states.tsx'
import { allows, useResources } from './data.ts'
import type { Resource } from './model.ts'

/** The list of resources that the user may read. */
export function Resources() {
  const session = useSession()
  const resources = useResources()
  return (
    <Page title="Records" about="The rows of every resource of this service.">
      <Loaded query={resources}>
        {(all) => {
          const readable = all.filter(({ can }) => allows(session, can.list) || allows(session, can.listDeleted))
          if (readable.length === 0) return <Empty title="There is no resource that you may read" />
          return (
            <div className="grid">
              {readable.map((resource) => (
                <ResourceCard key={resource.name} resource={resource} />
              ))}
            </div>
          )
        }}
      </Loaded>
    </Page>
  )
}

function ResourceCard({ resource: { name, title, fields, can } }: { resource: Resource }) {
  const session = useSession()
  const shown = fields.filter(({ isWriteOnly }) => !isWriteOnly).map(({ label }) => label)
  return (
    <section className="card stack tight">
      <h2>
        <Link to="/records/$resource" params={{ resource: name }}>
          {title}
        </Link>
      </h2>
      <p className="quiet small">{shown.slice(0, 6).join(', ')}</p>
      {allows(session, can.listDeleted) && (
        <Link to="/records/$resource/deleted" params={{ resource: name }} className="small">
          Deleted {title.toLowerCase()}
        </Link>
      )}
    </section>
  )
}

/** Renders `children` with the named resource, once the OpenAPI document is loaded. */
export function WithResource({ name, children }: { name: string; children: (resource: Resource) => ReactNode }) {
  const resources = useResources()
  return (
    <Loaded query={resources}>
      {(all) => {
        const resource = all.find((one) => one.name === name)
        if (resource) return children(resource)
        return (
          <Page title="Records">
            <Empty title={`There is no resource ${name}`}>
              <Link to="/records">All resources</Link>
            </Empty>
          </Page>
        )
      }}
    </Loaded>
  )
}
