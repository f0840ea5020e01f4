import { collection, service, Type } from 'plinth'

const fail = () => {
  throw new Error('crashed outside of a request')
}

/** For a note named `hang`, the derived field blocks its thread forever. For `crash`, it throws outside the request. */
const notes = collection({
  path: '/notes',
  noun: 'note',
  body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 40 }) }),
  derived: {
    length: {
      body: Type.Integer(),
      from: ({ name }) => {
        if (name === 'crash') setImmediate(fail)
        while (name === 'hang');
        return name.length
      },
    },
  },
})

export default service({ resources: [notes] })
