/* Tagged values: refcounts, containers, keys. */
#include "base/test.h"
#include "script/unit.h"
#include "script/value.h"
#include <pthread.h>
#include <stdio.h>

static cr_ivalue text(const char *s)
{
    cr_ivalue v;

    OK(cr_istring_new(&v, s, strlen(s)));
    return v;
}

TEST(a_chain_of_a_million_objects_is_freed_without_recursion)
{
    cr_ivalue first = cr_iv_none(), next;

    for (int i = 0; i < 1000000; i++) {
        OK(cr_iobject_new(&next, NULL, NULL, 1));
        next.object->slot[0] = first;
        first = next;
    }
    EQ(first.box->count, 1);
    cr_ivalue_drop(first);
}

TEST(an_object_that_refers_to_itself_is_freed_after_clearing)
{
    cr_ivalue o;

    OK(cr_iobject_new(&o, NULL, NULL, 2));
    o.object->slot[0] = cr_ivalue_keep(o);
    EQ(o.box->count, 2);
    cr_iobject_clear(o.object);
    EQ(o.box->count, 1);
    cr_ivalue_drop(o);
}

TEST(an_object_keeps_its_unit)
{
    cr_sunit *u = cr_sunit_new();
    cr_ivalue o;

    OK(cr_iobject_new(&o, NULL, u, 0));
    cr_sunit_release(u);
    CHECK(cr_sunit_session(o.object->unit) != NULL);
    cr_ivalue_drop(o);
}

TEST(a_deep_copy_has_one_copy_of_what_several_places_hold)
{
    cr_ivalue list, object, dict, copy;

    OK(cr_ilist_new(&list, NULL, 0));
    OK(cr_ilist_append(list.list, cr_iv_int(4)));
    OK(cr_idict_new(&dict, NULL));
    OK(cr_idict_set(dict.dict, text("key"), cr_ivalue_keep(list)));
    OK(cr_iobject_new(&object, NULL, NULL, 3));
    object.object->slot[0] = list;
    object.object->slot[1] = dict;
    object.object->slot[2] = cr_ivalue_keep(object);
    OK(cr_ivalue_deepcopy(&copy, &object));
    cr_ivalue *slot = copy.object->slot;
    OK(cr_ilist_append(slot[0].list, cr_iv_int(5)));
    EQ(slot[0].list->len, 2);
    EQ(list.list->len, 1);
    EQ(slot[1].dict->at[0].value.list, slot[0].list);
    EQ(slot[2].object, copy.object);
    CHECK(copy.object != object.object);
    cr_iobject_clear(copy.object);
    cr_iobject_clear(object.object);
    cr_ivalue_drop(copy);
    cr_ivalue_drop(object);
}

TEST(a_deep_copy_of_a_chain_of_a_million_objects_needs_no_recursion)
{
    cr_ivalue first = cr_iv_none(), next;
    int count = 0;

    for (int i = 0; i < 1000000; i++) {
        OK(cr_iobject_new(&next, NULL, NULL, 1));
        next.object->slot[0] = first;
        first = next;
    }
    OK(cr_ivalue_deepcopy(&next, &first));
    for (cr_ivalue *v = &next; v->kind == CR_IV_OBJECT; v = &v->object->slot[0])
        count++;
    EQ(count, 1000000);
    cr_ivalue_drop(first);
    cr_ivalue_drop(next);
}

TEST(a_list_inserts_takes_and_owns)
{
    cr_ivalue l, s = text("a");

    OK(cr_ilist_new(&l, NULL, 0));
    for (int i = 0; i < 5; i++)
        OK(cr_ilist_append(l.list, cr_iv_int(i)));
    OK(cr_ilist_insert(l.list, 2, cr_ivalue_keep(s)));
    EQ(s.box->count, 2);
    EQ(l.list->len, 6);
    EQ(l.list->at[3].i, 2);
    cr_ivalue_drop(cr_ilist_take(l.list, 2));
    EQ(s.box->count, 1);
    cr_ivalue_drop(s);
    cr_ivalue_drop(l);
}

TEST(a_dict_finds_keys_and_keeps_their_order)
{
    cr_ivalue d;
    char name[16];

    OK(cr_idict_new(&d, NULL));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "k%d", i);
        OK(cr_idict_set(d.dict, text(name), cr_iv_int(i)));
    }
    for (int i = 0; i < 100; i += 3) {
        cr_iitem item;
        snprintf(name, sizeof name, "k%d", i);
        cr_ivalue key = text(name);
        CHECK(cr_idict_take(d.dict, &key, &item));
        EQ(item.value.i, i);
        cr_ivalue_drop(item.key);
        CHECK(!cr_idict_find(d.dict, &key));
        cr_ivalue_drop(key);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "k%d", i);
        cr_ivalue key = text(name), *found = cr_idict_find(d.dict, &key);
        CHECK(i % 3 ? found && found->i == i : !found);
        cr_ivalue_drop(key);
    }
    for (size_t i = 1; i < d.dict->len; i++)
        CHECK(d.dict->at[i - 1].value.i < d.dict->at[i].value.i);
    cr_ivalue_drop(d);
}

TEST(a_key_that_is_set_again_keeps_its_place)
{
    cr_ivalue d;

    OK(cr_idict_new(&d, NULL));
    OK(cr_idict_set(d.dict, text("a"), cr_iv_int(1)));
    OK(cr_idict_set(d.dict, text("b"), cr_iv_int(2)));
    OK(cr_idict_set(d.dict, text("a"), cr_iv_int(3)));
    EQ(d.dict->len, 2);
    EQ(d.dict->at[0].value.i, 3);
    cr_ivalue_drop(d);
}

TEST(numbers_are_equal_across_kinds_and_containers_by_items)
{
    cr_ivalue one = cr_iv_int(1), truth = cr_iv_bool(true), real = cr_iv_float(1), a, b;

    CHECK(cr_ivalue_equal(&one, &truth));
    CHECK(cr_ivalue_equal(&one, &real));
    OK(cr_ituple_new(&a, NULL, 2));
    OK(cr_ituple_new(&b, NULL, 2));
    a.list->at[0] = text("x");
    b.list->at[0] = text("x");
    CHECK(cr_ivalue_equal(&a, &b));
    b.list->at[1] = cr_iv_int(1);
    CHECK(!cr_ivalue_equal(&a, &b));
    cr_ivalue_drop(a);
    cr_ivalue_drop(b);
}

TEST(a_failed_append_drops_its_value)
{
    cr_ivalue l, s = text("a");

    OK(cr_ilist_new(&l, NULL, 0));
    cr_ivalue_keep(s);
    cr_fail_alloc_after(1);
    FAILS(CR_MEMORY, cr_ilist_append(l.list, s));
    EQ(s.box->count, 1);
    EQ(l.list->len, 0);
    cr_ivalue_drop(s);
    cr_ivalue_drop(l);
}

typedef struct {
    cr_ivalue list, dict;
    bool failed;
} changed_items;

static void *change_items(void *context)
{
    changed_items *c = context;

    for (int i = 0; i < 40000 && !c->failed; i++) {
        char name[16];
        snprintf(name, sizeof name, "k%d", i % 50);
        cr_ivalue key = text(name);
        c->failed = cr_ilist_append(c->list.list, text("item")) ||
                    cr_idict_set(c->dict.dict, cr_ivalue_keep(key), text("value"));
        cr_ilist_set(c->list.list, 0, text("first"));
        cr_ilist_reverse(c->list.list);
        cr_iitem item;
        if (i % 3 == 0 && cr_idict_take(c->dict.dict, &key, &item)) {
            cr_ivalue_drop(item.key);
            cr_ivalue_drop(item.value);
        }
        if (i % 70 == 69) {
            cr_ilist_clear(c->list.list);
            cr_idict_clear(c->dict.dict);
        } else if (i % 5 == 4) {
            cr_ivalue_drop(cr_ilist_take(c->list.list, 0));
        }
        cr_ivalue_drop(key);
    }
    return NULL;
}

TEST(deep_copies_are_made_while_another_thread_changes_the_items)
{
    changed_items c = {.failed = false};
    cr_ivalue both, copy;
    pthread_t thread;

    OK(cr_ilist_new(&c.list, NULL, 0));
    OK(cr_idict_new(&c.dict, NULL));
    OK(cr_ituple_new(&both, NULL, 2));
    both.list->at[0] = c.list;
    both.list->at[1] = c.dict;
    EQ(pthread_create(&thread, NULL, change_items, &c), 0);
    for (int i = 0; i < 2000; i++) {
        OK(cr_ivalue_deepcopy(&copy, &both));
        const cr_ilist *l = copy.list->at[0].list;
        const cr_idict *d = copy.list->at[1].dict;
        for (size_t k = 0; k < l->len; k++)
            EQ(l->at[k].kind, CR_IV_STRING);
        for (size_t k = 0; k < d->len; k++)
            EQ(d->at[k].value.string->len, 5);
        cr_ivalue_drop(copy);
    }
    EQ(pthread_join(thread, NULL), 0);
    CHECK(!c.failed);
    cr_ivalue_drop(both);
}
